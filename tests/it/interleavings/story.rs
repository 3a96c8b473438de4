//! What happens to a daemon, as data: what people do, how the model and the tools behave, and when it is
//! killed.

use std::fmt;

use peacrab::types::session::QueueMode;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone)]
pub(super) struct Story(pub(super) Vec<Act>);

/// The story as somebody can read it, an act a line.
impl fmt::Debug for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|act| write!(f, "\n    {act:?}"))
    }
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Says(Who, Program),
    /// The message that was said so many before the last one.
    Edits(usize, Program),
    Deletes(usize),
    Commands(Who, Command),
    /// The buttons that were shown last.
    Presses(Who, usize),
    /// The owner allows or denies what was asked last.
    Judges(bool),
    /// Whatever was asked has waited for too long.
    Expires,
    /// What can happen now happens.
    Settles,
    Passes(Seconds),
    /// Dies at the commit that comes so many after this.
    Dies(u64, When),
    Restarts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Before,
    After,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) u64);

/// Who, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The owner.
    Ada,
    Bob,
    AdaInGroup,
    BobInGroup,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    Stop,
    New,
    Queue(QueueMode),
    Btw(End),
    Compact,
    Status,
}

/// What the model does about a message: calls in some steps, and how it ends.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) steps: Vec<Vec<Call>>,
    pub(super) end: End,
    /// How long each completion takes.
    pub(super) pace_ms: u64,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, end, pace_ms } = self;
        write!(f, "{steps:?} {end:?} {pace_ms}ms")
    }
}

#[derive(Clone, Debug)]
pub(super) enum Call {
    Looks,
    LooksSlowly,
    Fails,
    Hangs,
    Panics,
    Appends,
    /// Outside, where nothing tells whether it happened.
    Acts,
    /// The same, if somebody allows it.
    ActsWithLeave,
    Asks,
    AsksWithChoices,
    Spawns(Program),
    Awaits(Program),
    Messages,
    Plans,
    Unknown,
    Malformed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Says,
    /// Only a subagent can.
    Completes,
    Silent,
    NoWords,
    Busy,
    Refuses,
    TooLong,
    Panics,
    Hangs,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        12 => Just(End::Says),
        2 => Just(End::Silent),
        1 => Just(End::Completes),
        1 => Just(End::NoWords),
        1 => Just(End::Busy),
        1 => Just(End::Refuses),
        1 => Just(End::TooLong),
        1 => Just(End::Panics),
        1 => Just(End::Hangs),
    ]
}

fn pace() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0_u64), 2 => Just(100), 1 => Just(3_000)]
}

/// What a subagent can call, too.
fn plain_call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => Just(Call::Looks),
        2 => Just(Call::LooksSlowly),
        1 => Just(Call::Fails),
        1 => Just(Call::Hangs),
        1 => Just(Call::Panics),
        4 => Just(Call::Appends),
        4 => Just(Call::Acts),
        3 => Just(Call::ActsWithLeave),
        1 => Just(Call::Unknown),
        1 => Just(Call::Malformed),
    ]
}

fn task() -> impl Strategy<Value = Program> {
    (vec(vec(plain_call(), 1..3), 0..3), end(), pace()).prop_map(|(steps, end, pace_ms)| Program {
        steps,
        end,
        pace_ms,
    })
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        10 => plain_call(),
        2 => Just(Call::Asks),
        2 => Just(Call::AsksWithChoices),
        2 => task().prop_map(Call::Spawns),
        3 => task().prop_map(Call::Awaits),
        1 => Just(Call::Messages),
        1 => Just(Call::Plans),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    (vec(vec(call(), 1..4), 0..4), end(), pace()).prop_map(|(steps, end, pace_ms)| Program {
        steps,
        end,
        pace_ms,
    })
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        3 => Just(Who::Ada),
        1 => Just(Who::Bob),
        3 => Just(Who::AdaInGroup),
        4 => Just(Who::BobInGroup),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    use QueueMode::{Collect, Followup, Interrupt, Steer};
    prop_oneof![
        4 => Just(Command::Stop),
        2 => Just(Command::New),
        4 => prop_oneof![Just(Steer), Just(Followup), Just(Collect), Just(Interrupt)]
            .prop_map(Command::Queue),
        2 => end().prop_map(Command::Btw),
        2 => Just(Command::Compact),
        1 => Just(Command::Status),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (who(), program()).prop_map(|(who, program)| Act::Says(who, program)),
        1 => (0_usize..3, program()).prop_map(|(back, program)| Act::Edits(back, program)),
        1 => (0_usize..3).prop_map(Act::Deletes),
        4 => (who(), command()).prop_map(|(who, command)| Act::Commands(who, command)),
        3 => (who(), 0_usize..3).prop_map(|(who, choice)| Act::Presses(who, choice)),
        3 => any::<bool>().prop_map(Act::Judges),
        1 => Just(Act::Expires),
        8 => Just(Act::Settles),
        4 => prop_oneof![Just(1), Just(5), Just(130), Just(700)]
            .prop_map(|seconds| Act::Passes(Seconds(seconds))),
        4 => (1_u64..9, prop_oneof![Just(When::Before), Just(When::After)])
            .prop_map(|(commits, when)| Act::Dies(commits, when)),
        1 => Just(Act::Restarts),
    ]
}

pub(super) fn stories() -> impl Strategy<Value = Story> {
    vec(act(), 1..24).prop_map(Story)
}
