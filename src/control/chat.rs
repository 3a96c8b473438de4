//! A client of the control socket that is a terminal: its input and its output.

use std::time::Duration;

use rusqlite::Connection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};

use super::lines::{BoundedLines, write_line};
use super::{ChatLine, ControlServer, MESSAGE_BYTES_MAX, Response};
use crate::bus::{journal, outbox};
use crate::channels::terminal::{TerminalMessage, TerminalOutput};
use crate::replies;
use crate::store::{StoreTrouble, Sync};
use crate::types::commands;
use crate::types::event::Event;
use crate::types::message::{Address, ChatId, DedupKey, InboundContent};

/// Maximum time without input or output. A client that is silent for longer is gone, or forgotten.
const IDLE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The author of text that another program pipes into a client.
const PIPED: &str = "piped input";

/// A client that is a terminal.
pub(super) struct ChatClient<'a> {
    server: &'a ControlServer,
    address: Address,
    events: bool,
    /// The part of the draft that was shown.
    draft: String,
    /// Keys of messages from here whose outcome is not known yet.
    unsettled: Vec<DedupKey>,
}

impl<'a> ChatClient<'a> {
    pub(super) fn begin(server: &'a ControlServer, chat: ChatId, events: bool) -> Self {
        let address = Address { channel: server.terminal.name().clone(), chat, thread: None };
        Self { server, address, events, draft: String::new(), unsettled: Vec::new() }
    }

    pub(super) async fn run(
        mut self,
        mut lines: BoundedLines<impl AsyncRead + Unpin>,
        mut out: impl AsyncWrite + Unpin,
    ) -> std::io::Result<()> {
        let bus = &self.server.turns.services.bus;
        let mut outputs = self.server.terminal.attach(&self.address.chat);
        let mut events = self.server.turns.services.events.subscribe();
        let mut outbox_changes = bus.outbox.watch();
        self.hasten().await;
        let mut idle_until = Instant::now() + IDLE_MAX;
        loop {
            tokio::select! {
                biased;
                Some(output) = outputs.recv() => {
                    idle_until = Instant::now() + IDLE_MAX;
                    self.show_output(&mut out, output).await?;
                }
                line = lines.next() => {
                    idle_until = Instant::now() + IDLE_MAX;
                    match line {
                        Ok(None) => return Ok(()),
                        Ok(Some(line)) => self.receive_line(&mut out, &line).await?,
                        Err(error) => {
                            let failed = Response::Failed(error.to_string());
                            return write_line(&mut out, &failed).await;
                        }
                    }
                }
                () = sleep_until(idle_until) => return Ok(()),
                event = events.next(), if self.events => match event {
                    Some(event) => self.show_event(&mut out, event).await?,
                    None => return Ok(()),
                },
                changed = outbox_changes.changed(), if !self.unsettled.is_empty() => {
                    if changed.is_err() { return Ok(()) }
                    if let (Some(well), true) = (self.read_outcome().await, outputs.is_empty()) {
                        self.unsettled.clear();
                        write_line(&mut out, &Response::Settled { well }).await?;
                    }
                }
            }
        }
    }

    /// Returns the reason why the store has not taken a message.
    fn reason_not_kept(&self) -> &'static str {
        match self.server.turns.services.bus.store.trouble() {
            Some(StoreTrouble::Damaged) => replies::STORE_DAMAGED,
            _ => replies::NOT_KEPT,
        }
    }

    /// Speeds up deliveries that waited for a client at this terminal.
    async fn hasten(&self) {
        let bus = &self.server.turns.services.bus;
        let Address { channel, chat, .. } = self.address.clone();
        let hasten = move |store: &Connection| outbox::retry_chat_now(store, &channel, &chat);
        if let Err(error) = bus.store.write("hasten", Sync::Later, hasten).await {
            tracing::warn!(%error, "Cannot speed up deliveries to a terminal");
        }
        bus.outbox.notify();
    }

    async fn receive_line(
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
            Ok(ChatLine { say, piped: true }) if commands::find(&say).is_some() => {
                Response::Failed(replies::PIPED_COMMAND.to_owned())
            }
            Ok(ChatLine { say, piped }) => {
                let content = match piped {
                    true => InboundContent::of_others(say, PIPED),
                    false => InboundContent::text(say),
                };
                match self.server.terminal.submit(&self.address.chat, content).await {
                    None => Response::Failed(self.reason_not_kept().to_owned()),
                    Some(key) => {
                        self.hasten().await;
                        self.unsettled.push(key);
                        return Ok(());
                    }
                }
            }
        };
        write_line(out, &response).await
    }

    async fn show_output(
        &mut self,
        out: &mut (impl AsyncWrite + Unpin),
        output: TerminalOutput,
    ) -> std::io::Result<()> {
        match output {
            TerminalOutput::Message(TerminalMessage { text, asks, written }) => {
                // It ends the draft. Any other message came between, and the draft continues after it.
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

    async fn show_event(
        &self,
        out: &mut (impl AsyncWrite + Unpin),
        event: Event,
    ) -> std::io::Result<()> {
        if event.origin.as_ref().is_some_and(|origin| origin.chat() != Some(&self.address)) {
            return Ok(());
        }
        write_line(out, &Response::Event(Box::new(event))).await
    }

    /// Returns true if all messages from here were handled well. None while one is not done, or an answer is
    /// pending.
    async fn read_outcome(&self) -> Option<bool> {
        let (keys, address) = (self.unsettled.clone(), self.address.clone());
        let read = move |store: &Connection| {
            let well = keys.iter().map(|key| journal::succeeded(store, key));
            let well = well.collect::<rusqlite::Result<Option<Vec<_>>>>()?;
            let pending = outbox::is_pending(store, &address)?;
            Ok(well.filter(|_| !pending).map(|well| !well.contains(&false)))
        };
        self.server.turns.services.bus.store.read(read).await.unwrap_or_default()
    }
}
