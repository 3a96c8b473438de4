//! `/metrics`, in the text format of Prometheus, version 0.0.4. Labels are names from the config and of tools, never
//! people or chats.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::Utc;

use super::access::is_operator;
use super::counters::Counted;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::control::{Status, status};
use crate::provider::prices::Cost;
use crate::sandbox::SandboxState;
use crate::store::FILE;
use crate::types::histogram::Histogram;

const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET /metrics`
pub(super) async fn metrics(
    State(gateway): State<Arc<HttpGateway>>,
    headers: HeaderMap,
) -> Result<Response, HttpRefusal> {
    if !is_operator(&gateway, &headers) {
        return Err(HttpRefusal::new(StatusCode::UNAUTHORIZED, "send the token of [gateway]"));
    }
    let status = status(&gateway.control).await?;
    let counted = gateway.counters.read(gateway.services()).await;
    let mut page = Page::default();
    page.write_counts(&counted);
    page.write_state(&status, &gateway);
    Ok(([(header::CONTENT_TYPE, FORMAT)], page.0).into_response())
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP peacrab_{name} {help}\n# TYPE peacrab_{name} {kind}")
            .expect("a String takes all");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        writeln!(self.0, "peacrab_{name}{labels} {value}").expect("a String takes all");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// Writes the samples of a histogram.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], times: &Histogram) {
        for (bound, count) in times.cumulative() {
            let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
            let labels = [labels, &[("le", &*bound)]].concat();
            self.sample(&format!("{name}_bucket"), &labels, count);
        }
        self.sample(&format!("{name}_sum"), labels, times.sum().as_secs_f64());
        self.sample(&format!("{name}_count"), labels, times.count());
    }

    /// Writes the counters since the start.
    fn write_counts(&mut self, counted: &Counted) {
        self.head("turns_total", "counter", "Turns that have ended.");
        for ending in ["answered", "silent"] {
            let count = counted.turns.get(ending).copied().unwrap_or_default();
            self.sample("turns_total", &[("ending", ending)], count);
        }
        self.head("turn_seconds", "histogram", "Duration of turns, with all waiting in them.");
        self.histogram("turn_seconds", &[], &counted.turn_times);
        self.head("turns_resumed_total", "counter", "Turns that were begun again after a restart.");
        self.sample("turns_resumed_total", &[], counted.resumed);
        self.head("steps_total", "counter", "Model calls of turns.");
        self.sample("steps_total", &[], counted.steps);
        let help = "Duration of model calls that were answered, with their repetitions.";
        self.head("step_seconds", "histogram", help);
        self.histogram("step_seconds", &[], &counted.step_times);
        self.head("errors_total", "counter", "Turns that ended with an explanation.");
        self.sample("errors_total", &[], counted.errors);
        self.head("tool_calls_total", "counter", "Tool calls, by tool and outcome.");
        for (tool, made) in &counted.calls {
            let calls = |outcome| [("tool", tool.as_str()), ("outcome", outcome)];
            self.sample("tool_calls_total", &calls("done"), made.all - made.failed);
            self.sample("tool_calls_total", &calls("failed"), made.failed);
        }
        self.head("tool_seconds_total", "counter", "Time in tool calls, by tool.");
        for (tool, made) in &counted.calls {
            self.sample("tool_seconds_total", &[("tool", tool)], made.took.as_secs_f64());
        }
        self.head("deliveries_total", "counter", "Parts of messages, by outcome of an attempt.");
        for outcome in ["sent", "retried", "lost"] {
            let count = counted.deliveries.get(outcome).copied().unwrap_or_default();
            self.sample("deliveries_total", &[("outcome", outcome)], count);
        }
        self.head(
            "tokens_total",
            "counter",
            "Tokens, by provider and kind. Input contains cached.",
        );
        for (provider, usage) in &counted.tokens {
            let kinds =
                [("input", usage.input), ("cached", usage.cached), ("output", usage.output)];
            for (kind, tokens) in kinds {
                self.sample("tokens_total", &[("provider", provider), ("kind", kind)], tokens);
            }
        }
        let help = "Share of the input that came from the provider's cache, since the start.";
        self.head("cache_share", "gauge", help);
        for (provider, usage) in counted.tokens.iter().filter(|(_, usage)| usage.input > 0) {
            #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
            let share = usage.cached as f64 / usage.input as f64;
            self.sample("cache_share", &[("provider", provider)], share);
        }
        let help = "Cost of the tokens whose price is known, by provider.";
        self.head("cost_dollars_total", "counter", help);
        for (provider, cost) in &counted.costs {
            self.sample("cost_dollars_total", &[("provider", provider)], Cost(*cost).dollars());
        }
    }

    /// Writes the current state.
    fn write_state(&mut self, status: &Status, gateway: &HttpGateway) {
        let uptime = (Utc::now() - status.since).num_seconds().max(0);
        self.head("build_info", "gauge", "The version.");
        self.sample("build_info", &[("version", &status.version)], 1);
        self.gauge("uptime_seconds", "Time since the start.", uptime);
        self.gauge("turns_running", "Turns that have begun and not ended.", status.turns_running);
        self.gauge("chats_waiting", "Chats with messages that wait for a turn.", status.waiting);
        let waiting = status.awaiting_model.as_ref().map_or(0, |waiting| waiting.turns);
        self.gauge("turns_awaiting_model", "Turns that wait for a model.", waiting);
        self.gauge("tokens_30_days", "Tokens of the last 30 days.", status.tokens_30_days);
        self.head("channel_up", "gauge", "1 if the channel is connected.");
        for (name, channel) in &status.channels {
            self.sample("channel_up", &[("channel", name)], u8::from(channel.up));
        }
        self.head("channel_last_byte_seconds", "gauge", "Time since the platform was heard.");
        for (name, age) in status.channels.iter().filter_map(|it| Some((it.0, it.1.last_byte_s?))) {
            self.sample("channel_last_byte_seconds", &[("channel", name)], age);
        }
        self.head("deliveries_pending", "gauge", "Messages on their way out.");
        for (name, channel) in &status.channels {
            self.sample("deliveries_pending", &[("channel", name)], channel.pending);
        }
        self.head("mcp_server_up", "gauge", "1 if the MCP server is connected.");
        for (name, server) in &status.mcp {
            self.sample("mcp_server_up", &[("server", name)], u8::from(server.up));
        }
        let is_sandboxed = matches!(status.shell, SandboxState::Sandboxed { .. });
        self.gauge(
            "sandbox_active",
            "1 if shell commands run in the sandbox.",
            u8::from(is_sandboxed),
        );
        let is_offered = status.shell.is_offered();
        self.gauge("shell_offered", "1 if shell commands can be run.", u8::from(is_offered));
        self.gauge("pages_open", "Open pages of the gateway.", gateway.web.attached());
        self.write_sizes(gateway);
        self.write_store(gateway);
    }

    /// Writes the commits and changes of the store.
    fn write_store(&mut self, gateway: &HttpGateway) {
        let store = &gateway.services().bus.store;
        let commits = store.commit_durations();
        let help = "Duration of commits, with a sync of the disk and without.";
        self.head("store_commit_seconds", "histogram", help);
        let kinds = [("yes", &commits.synced), ("no", &commits.unsynced)];
        for (synced, times) in kinds {
            self.histogram("store_commit_seconds", &[("synced", synced)], times);
        }
        self.head("store_commit_longest_seconds", "gauge", "The longest commit since the start.");
        for (synced, times) in kinds {
            let longest = times.longest().as_secs_f64();
            self.sample("store_commit_longest_seconds", &[("synced", synced)], longest);
        }
        let help = "Changes that wait for the store.";
        self.gauge("store_changes_waiting", help, store.changes_waiting());
        self.head("store_written_bytes_total", "counter", "Bytes that the store has written.");
        self.sample("store_written_bytes_total", &[], store.written());
    }

    /// Writes the memory of the process, and the sizes of the store's files.
    fn write_sizes(&mut self, gateway: &HttpGateway) {
        if let Some(bytes) = resident_bytes() {
            self.gauge("resident_memory_bytes", "Memory of the process.", bytes);
        }
        self.head("store_bytes", "gauge", "Size of the store's files.");
        for (part, ending) in [("database", ""), ("log", "-wal")] {
            let path = format!("{}/{FILE}{ending}", gateway.control.home);
            let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            self.sample("store_bytes", &[("part", part)], bytes);
        }
    }
}

/// Escapes the value of a label, as the format requires.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns the resident memory in bytes: the second number of `/proc/self/statm`, which counts pages (proc(5)).
fn resident_bytes() -> Option<u64> {
    let numbers = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = numbers.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * u64::try_from(rustix::param::page_size()).ok()?)
}
