//! The claim of a turn on a slot. Data only.

/// A turn's claim on a slot, running or waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim<P> {
    pub person: P,
    /// True if the person, or somebody who waits behind them in the same chat, is the owner or an admin.
    pub entitled: bool,
}

impl<P> Claim<P> {
    pub fn by_ref(&self) -> Claim<&P> {
        Claim { person: &self.person, entitled: self.entitled }
    }
}
