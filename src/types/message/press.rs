//! A pressed button, and its text form in a platform's button data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::types::message::DeliveryId;

/// A pressed button: the question's delivery and the index of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Press {
    pub delivery: DeliveryId,
    pub choice: usize,
}

/// The text form in a platform's button data: at most 64 bytes, the lowest limit of all platforms (Telegram
/// Bot API, InlineKeyboardButton).
impl fmt::Display for Press {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p:{}:{}", self.delivery.0, self.choice)
    }
}

impl FromStr for Press {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (delivery, choice) =
            text.strip_prefix("p:").and_then(|ids| ids.split_once(':')).ok_or(())?;
        let delivery = DeliveryId(delivery.parse().map_err(drop)?);
        Ok(Self { delivery, choice: choice.parse().map_err(drop)? })
    }
}
