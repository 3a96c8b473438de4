//! The long poll. A request for updates confirms the ones before, and is sent only after `publish` has returned;
//! nothing else confirms updates. Pressed buttons are answered in parallel.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::Utc;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use teloxide::payloads::GetUpdates;
use teloxide::types::AllowedUpdate;

use super::inbound::{self, Decoded, TelegramIdentity, TelegramReadingContext};
use super::offset::Offset;
use super::{Telegram, poll_conflict};
use crate::bus::{Published, Publisher};
use crate::channels::ChannelError;
use crate::channels::routing::{self, Addressee, InboundEvent};
use crate::types::message::ChannelName;

/// Minimum duration of an empty long poll. If one ends sooner, a proxy between us and Telegram does not wait,
/// and without a pause we would send thousands of requests per second.
const EMPTY_POLL_MIN: Duration = Duration::from_secs(1);

/// Maximum number of parallel answers to pressed buttons. Further presses get no answer while so many
/// wait.
const ANSWERS_MAX: usize = 16;

/// The albums that recently addressed the bot, on any link.
#[derive(Default)]
pub(super) struct Albums(VecDeque<Album>);

/// An album, by the name that it has in its chat.
#[derive(PartialEq, Eq)]
struct Album {
    chat: String,
    name: String,
}

/// Maximum number of remembered albums: chats that send one at the same time, in a few messages each.
const ALBUMS_MAX: usize = 64;

impl Albums {
    fn note(&mut self, album: Album) {
        if self.0.contains(&album) {
            return;
        }
        if self.0.len() >= ALBUMS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(album);
    }
}

/// Returns the album that an update belongs to.
fn album_of(update: &RawUpdate) -> Option<Album> {
    let message = update.get("message").or_else(|| update.get("edited_message"))?;
    let name = message.get("media_group_id")?.as_str()?.to_owned();
    Some(Album { chat: message.get("chat")?.get("id")?.to_string(), name })
}

/// An accepted press and its outcome, which is None if the button was not ours.
struct PressAnswer {
    query: String,
    published: Option<Published>,
}

/// An update that is not decoded yet.
type RawUpdate = Value;

impl Telegram {
    /// Listens until the link ends.
    pub(super) async fn poll_for_ever(&self, publisher: &Publisher) -> Result<(), ChannelError> {
        let bot = self.identity().await?;
        let mark = publisher.mark().await?;
        let mut offset = Offset::from_mark(bot.id, mark);
        // They run beside the loop: no update waits for an answer that only the presser sees.
        let mut answers = FuturesUnordered::new();
        // The first poll is answered at once: only that shows that the link works.
        let mut hold = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let updates =
                await_beside(self.poll(offset.to_poll(Utc::now()), hold), &mut answers).await?;
            publisher.note_bytes();
            if hold.is_zero() {
                publisher.link_up(describe_link(&bot));
            }
            let accepting = self.accept(&updates, &mut offset, &bot, publisher);
            for PressAnswer { query, published } in await_beside(accepting, &mut answers).await? {
                if answers.len() < ANSWERS_MAX {
                    answers.push(self.answer_press(query, published));
                }
            }
            if updates.is_empty() && !hold.is_zero() && begun.elapsed() < EMPTY_POLL_MIN {
                await_beside(tokio::time::sleep(EMPTY_POLL_MIN), &mut answers).await;
            }
            if hold.is_zero() {
                await_beside(self.list_commands(), &mut answers).await;
                hold = self.deadlines.poll;
            }
        }
    }

    /// Requests updates. Telegram may wait `hold` for one, in whole seconds.
    async fn poll(
        &self,
        offset: Option<i32>,
        hold: Duration,
    ) -> Result<Vec<RawUpdate>, ChannelError> {
        let request = GetUpdates {
            offset,
            limit: None,
            timeout: u32::try_from(hold.as_secs()).ok(),
            allowed_updates: Some(vec![
                AllowedUpdate::Message,
                AllowedUpdate::EditedMessage,
                AllowedUpdate::CallbackQuery,
            ]),
        };
        let deadline = hold + self.deadlines.poll_grace;
        let result = self.api.call(&request, deadline).await;
        let mut poll_conflicts = self.poll_conflicts.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(updates) => {
                poll_conflicts.note_poll(Instant::now());
                Ok(updates)
            }
            Err(error) if error.is_conflict() && poll_conflicts.note_conflict() => {
                Err(ChannelError::Closed(poll_conflict::CONFLICT_REASON.to_owned()))
            }
            Err(error) => Err(error.while_asking()),
        }
    }

    /// Accepts updates and advances the offset. Once this returns, they may be confirmed.
    async fn accept(
        &self,
        updates: &[RawUpdate],
        offset: &mut Offset,
        bot: &TelegramIdentity,
        publisher: &Publisher,
    ) -> Result<Vec<PressAnswer>, ChannelError> {
        let (mut events, mut queries) = (Vec::new(), Vec::new());
        // An update without an id cannot be confirmed, nor can the ones after it.
        for (update, id) in updates.iter().map_while(|it| Some((it, update_id(it).ok()?))) {
            let Decoded { event, query } = self.decode(update, bot, publisher.channel());
            events.push(event);
            queries.push(query);
            offset.advance(id, Utc::now());
        }
        let outcomes = routing::receive(publisher, events, offset.mark()).await?;
        let answers = queries.into_iter().zip(outcomes).filter_map(|(query, outcome)| {
            Some(PressAnswer { query: query?, published: outcome.published() })
        });
        let answers = answers.collect();
        updates.iter().try_for_each(|update| update_id(update).map(drop))?;
        Ok(answers)
    }

    /// Decodes one update, and notes its album if it addresses the bot.
    fn decode(&self, update: &RawUpdate, bot: &TelegramIdentity, channel: &ChannelName) -> Decoded {
        let album = album_of(update);
        let known = album.as_ref().filter(|album| self.albums().0.contains(album));
        let album_name = known.map(|album| album.name.as_str());
        let context = TelegramReadingContext { bot, channel, album: album_name, now: Utc::now() };
        let decoded = inbound::decode(update, &context);
        if let (InboundEvent::New(message), Some(album)) = (&decoded.event, album)
            && message.addressee == Addressee::Bot
        {
            self.albums().note(album);
        }
        decoded
    }

    fn albums(&self) -> MutexGuard<'_, Albums> {
        self.albums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes a link for `status`.
fn describe_link(bot: &TelegramIdentity) -> String {
    let name = &bot.username;
    if bot.can_read_all_group_messages {
        format!("@{name}")
    } else {
        format!("@{name}, sees only messages to the bot in groups (privacy mode)")
    }
}

/// Awaits `work`, and drives the `others` meanwhile.
async fn await_beside<T>(
    work: impl Future<Output = T>,
    others: &mut FuturesUnordered<impl Future<Output = ()>>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            Some(()) = others.next() => {}
        }
    }
}

fn update_id(update: &RawUpdate) -> Result<i32, ChannelError> {
    let id = update.get("update_id").and_then(Value::as_i64);
    id.and_then(|id| i32::try_from(id).ok()).ok_or_else(|| {
        ChannelError::unavailable(
            "telegram sent an update without an id, which cannot be confirmed",
        )
    })
}
