//! Executes one instruction: which function does which.

use crate::arithmetic as by;
use crate::code::Cache;
use crate::memory::Memory;
use crate::observe::Observer;
use crate::op::{Kind, Op};
use crate::runner::Runner;
use crate::stop::{Stop, Unsupported};

/// Executes one instruction; gives the next one.
#[inline(always)]
pub fn step<M, O>(runner: &mut Runner<'_, M, O>, cache: &Cache, op: &Op) -> Result<u64, Stop>
where
    M: Memory + ?Sized,
    O: Observer + ?Sized,
{
    match op.kind {
        Kind::Nothing => {}
        Kind::Move => runner.move_value(op)?,
        Kind::ExtendZero => runner.extend_zero(op)?,
        Kind::ExtendSign => runner.extend_sign(op)?,
        Kind::Address => runner.load_address(op),
        Kind::Add => runner.binary(op, by::add)?,
        Kind::Or => runner.binary(op, by::or)?,
        Kind::Adc => runner.binary(op, by::adc)?,
        Kind::Sbb => runner.binary(op, by::sbb)?,
        Kind::And => runner.binary(op, by::and)?,
        Kind::Sub => runner.binary(op, by::sub)?,
        Kind::Xor => runner.binary(op, by::xor)?,
        Kind::Compare => runner.compare(op, by::sub)?,
        Kind::Test => runner.compare(op, by::test)?,
        Kind::Inc => runner.unary(op, by::inc)?,
        Kind::Dec => runner.unary(op, by::dec)?,
        Kind::Neg => runner.unary(op, by::neg)?,
        Kind::Not => runner.change(op, |a, _| !a)?,
        Kind::Shl => runner.binary_count(op, by::shl)?,
        Kind::Shr => runner.binary_count(op, by::shr)?,
        Kind::Sar => runner.binary_count(op, by::sar)?,
        Kind::MoveIf(condition) => runner.move_if(op, condition)?,
        Kind::SetIf(condition) => runner.set_if(op, condition)?,
        Kind::Push => runner.push_value(op)?,
        Kind::Pop => runner.pop_value(op)?,
        Kind::Leave => runner.leave(op)?,
        Kind::Native => {
            let (stub, entry) = cache.stub(op.code);
            runner.native(op, &stub.needs, entry)?;
        }
        Kind::JumpIf(condition) => return Ok(runner.jump_if(op, condition)),
        Kind::Jump => return Ok(op.value),
        Kind::Call => return runner.call(op),
        Kind::Return => return runner.ret(op),
        Kind::JumpTo => return runner.indirect(op),
        Kind::CallTo => return runner.call_indirect(op),
        _ => return rare(runner, cache, op),
    }
    Ok(op.next)
}

#[inline(never)]
fn rare<M, O>(runner: &mut Runner<'_, M, O>, cache: &Cache, op: &Op) -> Result<u64, Stop>
where
    M: Memory + ?Sized,
    O: Observer + ?Sized,
{
    match op.kind {
        Kind::Lanes => runner.lanes(op, &cache.lanes[op.code as usize])?,
        Kind::Save(form) => runner.save(op, form)?,
        Kind::Restore(form) => runner.restore(op, form)?,
        Kind::SystemCall => return Err(Stop::SystemCall),
        Kind::Fault(fault) => return Err(Stop::Fault(fault)),
        Kind::Lacking => return Err(Stop::Unsupported(Unsupported::Feature(op.mnemonic))),
        Kind::Unsupported => return Err(Stop::Unsupported(Unsupported::Instruction(op.mnemonic))),
        _ => {
            if runner.rare_integer(op)? || runner.string(op)? || runner.special(op)? {
                return Ok(op.next);
            }
            let next = runner.rare_control(op)?;
            return next.ok_or(Stop::Unsupported(Unsupported::Instruction(op.mnemonic)));
        }
    }
    Ok(op.next)
}
