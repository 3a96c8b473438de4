//! Every sentence that the bot says by itself, in one place, so that a person can proof-read it.
