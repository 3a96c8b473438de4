//! A client of the control socket that is a terminal: what is said there, and what is shown.

use std::time::Duration;

use rusqlite::Connection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};

use super::lines::{BoundedLines, write_line};
use super::{ChatLine, ControlServer, MESSAGE_BYTES_MAX, Response};
use crate::bus::{journal, outbox};
use crate::channels::terminal::{TerminalMessage, TerminalOutput};
use crate::replies;
use crate::store::Sync;
use crate::types::event::Event;
use crate::types::message::{Address, ChatId, DedupKey, InboundContent};

/// A client that says and is shown nothing for so long is gone, or forgotten.
const IDLE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The author of what another program prints into a client.
const PIPED: &str = "piped input";

/// A client that is a terminal.
pub(super) struct ChatClient<'a> {
    server: &'a ControlServer,
    address: Address,
    events: bool,
    /// The part of the draft that was shown.
    draft: String,
    /// Messages that may not have had their outcome.
    said: Vec<DedupKey>,
}

impl<'a> ChatClient<'a> {
    pub(super) fn begin(server: &'a ControlServer, chat: ChatId, events: bool) -> Self {
        let address = Address { channel: server.terminal.name().clone(), chat, thread: None };
        Self { server, address, events, draft: String::new(), said: Vec::new() }
    }

    pub(super) async fn run(
        mut self,
        mut lines: BoundedLines<impl AsyncRead + Unpin>,
        mut out: impl AsyncWrite + Unpin,
    ) -> std::io::Result<()> {
        let bus = &self.server.turns.services.bus;
        let mut shows = self.server.terminal.attach(&self.address.chat);
        let mut events = self.server.turns.services.events.subscribe();
        let mut moved = bus.outbox.watch();
        self.hasten().await;
        let mut until = Instant::now() + IDLE_MAX;
        loop {
            tokio::select! {
                biased;
                Some(show) = shows.recv() => {
                    until = Instant::now() + IDLE_MAX;
                    self.show(&mut out, show).await?;
                }
                line = lines.next() => {
                    until = Instant::now() + IDLE_MAX;
                    match line {
                        Ok(None) => return Ok(()),
                        Ok(Some(line)) => self.said(&mut out, &line).await?,
                        Err(error) => {
                            let failed = Response::Failed(error.to_string());
                            return write_line(&mut out, &failed).await;
                        }
                    }
                }
                () = sleep_until(until) => return Ok(()),
                event = events.next(), if self.events => match event {
                    Some(event) => self.event(&mut out, event).await?,
                    None => return Ok(()),
                },
                changed = moved.changed(), if !self.said.is_empty() => {
                    if changed.is_err() { return Ok(()) }
                    if let (Some(well), true) = (self.settled().await, shows.is_empty()) {
                        self.said.clear();
                        write_line(&mut out, &Response::Settled { well }).await?;
                    }
                }
            }
        }
    }

    /// Brings what waited for somebody to sit down here.
    async fn hasten(&self) {
        let bus = &self.server.turns.services.bus;
        let Address { channel, chat, .. } = self.address.clone();
        let hasten = move |store: &Connection| outbox::hasten(store, &channel, &chat);
        if let Err(error) = bus.store.write("hasten", Sync::Later, hasten).await {
            tracing::warn!(%error, "Cannot speed up deliveries to a terminal");
        }
        bus.outbox.up();
    }

    async fn said(
        &mut self,
        out: &mut (impl AsyncWrite + Unpin),
        line: &str,
    ) -> std::io::Result<()> {
        let response = match serde_json::from_str::<ChatLine>(line) {
            Err(error) => Response::Failed(format!("cannot read the line: {error}")),
            Ok(ChatLine { say, .. }) if say.trim().is_empty() => Response::Settled { well: true },
            Ok(ChatLine { say, .. }) if say.len() > MESSAGE_BYTES_MAX => {
                Response::Failed(replies::too_long_to_say(say.len(), MESSAGE_BYTES_MAX))
            }
            Ok(ChatLine { say, piped }) => {
                let content = match piped {
                    true => InboundContent::of_others(say, PIPED),
                    false => InboundContent::text(say),
                };
                match self.server.terminal.say(&self.address.chat, content).await {
                    None => Response::Failed(replies::NOT_KEPT.to_owned()),
                    Some(key) => {
                        self.hasten().await;
                        self.said.push(key);
                        return Ok(());
                    }
                }
            }
        };
        write_line(out, &response).await
    }

    async fn show(
        &mut self,
        out: &mut (impl AsyncWrite + Unpin),
        show: TerminalOutput,
    ) -> std::io::Result<()> {
        match show {
            TerminalOutput::Message(TerminalMessage { text, asks, written }) => {
                // Else it is one that came between, and the draft goes on after it.
                if text.starts_with(self.draft.trim_end()) {
                    self.draft.clear();
                }
                write_line(out, &Response::Message(text)).await?;
                if asks {
                    write_line(out, &Response::Asks).await?;
                }
                written.send(()).ok();
                Ok(())
            }
            TerminalOutput::Draft(text) => {
                if !text.starts_with(&self.draft) {
                    self.draft.clear();
                    write_line(out, &Response::Again).await?;
                }
                let more = text[self.draft.len()..].to_owned();
                self.draft = text;
                if more.is_empty() { Ok(()) } else { write_line(out, &Response::Text(more)).await }
            }
        }
    }

    async fn event(
        &self,
        out: &mut (impl AsyncWrite + Unpin),
        event: Event,
    ) -> std::io::Result<()> {
        if event.origin.as_ref().is_some_and(|of| of.chat() != Some(&self.address)) {
            return Ok(());
        }
        write_line(out, &Response::Event(Box::new(event))).await
    }

    /// Returns true if all messages from here were handled well. None while one is not done, or an answer is still on
    /// its way here.
    async fn settled(&self) -> Option<bool> {
        let (said, address) = (self.said.clone(), self.address.clone());
        let settled = move |store: &Connection| {
            let well = said.iter().map(|key| journal::went_well(store, key));
            let well = well.collect::<rusqlite::Result<Option<Vec<_>>>>()?;
            let pending = outbox::is_pending(store, &address)?;
            Ok(well.filter(|_| !pending).map(|well| !well.contains(&false)))
        };
        self.server.turns.services.bus.store.read(settled).await.unwrap_or_default()
    }
}
