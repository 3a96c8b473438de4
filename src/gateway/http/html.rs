//! Renders CommonMark, as models write it, as HTML for the page. No markup of the text gets through: HTML in it
//! is shown as text, pictures become links (a picture's address could carry a secret out), and only links to
//! the web or to a mail address can be followed.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Schemes of links that can be followed.
const SCHEMES: [&str; 3] = ["http:", "https:", "mailto:"];

/// Renders CommonMark as safe HTML.
pub fn render(text: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let events = Parser::new_ext(text, options).map(make_harmless);
    let mut out = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut out, events);
    out
}

/// Renders the output of a program unchanged.
pub fn render_printed(text: &str) -> String {
    format!("<pre>{}</pre>", escaped(text))
}

fn make_harmless(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        // The HTML writer puts no element around an HTML block.
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            link_tag(&dest_url)
        }
        Event::End(TagEnd::Link | TagEnd::Image) => Event::InlineHtml(CowStr::Borrowed("</a>")),
        // People who write without empty lines expect their line ends to be kept.
        Event::SoftBreak => Event::HardBreak,
        other => other,
    }
}

/// Returns the opening tag of a link. An unsafe link gets no address.
fn link_tag(url: &str) -> Event<'static> {
    let lower = url.trim_start().to_ascii_lowercase();
    let tag = match SCHEMES.iter().any(|scheme| lower.starts_with(scheme)) {
        true => format!(
            "<a href=\"{}\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">",
            escaped(url)
        ),
        false => "<a>".to_owned(),
    };
    Event::InlineHtml(tag.into())
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
