//! Removes message headers from answers. A prompt puts a bracket line with time, speaker and place before each
//! message, and small models copy it. It is left out while the answer arrives, too.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};

use super::{Delta, DeltaStream, Provider, ProviderError, ProviderLayer, Request};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The pattern after the day: `d` is a digit, `+` a sign, all else itself.
const TIME: &str = " dddd-dd-dd dd:dd +dd:dd";

/// Maximum length of a header, in bytes: names have 40 characters at most.
const LINE_BYTES_MAX: usize = 400;

/// A provider whose answers have no message headers.
pub struct WithoutEchoes {
    inner: Arc<dyn Provider>,
}

impl WithoutEchoes {
    pub fn new(inner: Arc<dyn Provider>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl ProviderLayer for WithoutEchoes {
    fn inner(&self) -> &dyn Provider {
        &*self.inner
    }

    async fn answer<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let reading = (self.inner.stream(request).await?, HeaderFilter::default(), VecDeque::new());
        Ok(stream::try_unfold(reading, |(mut inner, mut filter, mut ready)| async move {
            while ready.is_empty() {
                let Some(delta) = inner.next().await.transpose()? else { break };
                filter.take(delta, &mut ready);
            }
            Ok(ready.pop_front().map(|delta| (delta, (inner, filter, ready))))
        })
        .boxed())
    }
}

/// Removes header lines from a text that arrives in pieces.
#[derive(Default)]
pub struct HeaderFilter {
    /// The beginning of a line that may become a header.
    held: String,
    /// True within a line that is not a header.
    in_line: bool,
    /// True after a removed header: the blank lines behind it are removed, too.
    after_header: bool,
}

impl HeaderFilter {
    fn take(&mut self, delta: Delta, ready: &mut VecDeque<Delta>) {
        match delta {
            Delta::Text(text) => {
                let shown = self.push(&text);
                if !shown.is_empty() {
                    ready.push_back(Delta::Text(shown));
                }
            }
            Delta::End(_) => {
                let rest = self.finish();
                if !rest.is_empty() {
                    ready.push_back(Delta::Text(rest));
                }
                ready.push_back(delta);
            }
            Delta::Restart => {
                *self = Self::default();
                ready.push_back(delta);
            }
            delta => ready.push_back(delta),
        }
    }

    /// Adds a piece. Returns the text that can be shown now.
    pub fn push(&mut self, text: &str) -> String {
        let mut shown = String::new();
        for sign in text.chars() {
            if self.in_line {
                shown.push(sign);
                self.in_line = sign != '\n';
                continue;
            }
            if sign == '\n' {
                self.end_line(&mut shown);
                continue;
            }
            self.held.push(sign);
            if !may_be_header(&self.held) {
                self.release(&mut shown);
            }
        }
        shown
    }

    /// Ends the answer. Returns the held text, unless it is a header.
    pub fn finish(&mut self) -> String {
        let line = std::mem::take(&mut self.held);
        if is_header(&line) { String::new() } else { line }
    }

    fn end_line(&mut self, shown: &mut String) {
        if is_header(&self.held) {
            self.held.clear();
            self.after_header = true;
        } else if self.held.trim().is_empty() && self.after_header {
            self.held.clear();
        } else {
            self.release(shown);
            shown.push('\n');
            self.in_line = false;
        }
    }

    fn release(&mut self, shown: &mut String) {
        shown.push_str(&std::mem::take(&mut self.held));
        (self.in_line, self.after_header) = (true, false);
    }
}

/// Returns true if a whole line is a header.
fn is_header(line: &str) -> bool {
    let line = line.trim();
    let Some(inner) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) else {
        return false;
    };
    match match_time(inner) {
        Fit::Whole(rest) => rest.is_empty() || rest.starts_with(" ·"),
        Fit::SoFar | Fit::Not => false,
    }
}

/// Returns true if the beginning of a line can become a header.
fn may_be_header(line: &str) -> bool {
    let line = line.trim_start();
    let Some(inner) = line.strip_prefix('[') else { return line.is_empty() };
    if line.len() > LINE_BYTES_MAX {
        return false;
    }
    match match_time(inner) {
        Fit::Not => false,
        Fit::SoFar => true,
        Fit::Whole(rest) => match rest.trim_end().strip_suffix(']') {
            Some(rest) => rest.is_empty() || rest.starts_with(" ·"),
            None => rest.is_empty() || " ·".starts_with(rest) || rest.starts_with(" ·"),
        },
    }
}

enum Fit<'a> {
    Not,
    /// It is shorter than the day and the time.
    SoFar,
    /// The day and the time, with the rest of the line.
    Whole(&'a str),
}

fn match_time(inner: &str) -> Fit<'_> {
    let day = DAYS.iter().find(|day| inner.starts_with(**day) || day.starts_with(inner));
    let Some(rest) = day.map(|day| inner.strip_prefix(day).unwrap_or_default()) else {
        return Fit::Not;
    };
    let mut signs = rest.char_indices();
    for wanted in TIME.chars() {
        let Some((_, sign)) = signs.next() else { return Fit::SoFar };
        let fits = match wanted {
            'd' => sign.is_ascii_digit(),
            '+' => matches!(sign, '+' | '-'),
            wanted => sign == wanted,
        };
        if !fits {
            return Fit::Not;
        }
    }
    Fit::Whole(signs.as_str())
}
