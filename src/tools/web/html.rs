//! Converts HTML to Markdown with htmd, without parts that are not for reading. Input that would make
//! htmd expensive is removed before: depth, because htmd recurses for each level, and tables that would
//! become large.

use std::cell::RefCell;
use std::rc::Rc;

use htmd::element_handler::Handlers;
use htmd::options::{BrStyle, BulletListMarker, HrStyle, Options};
use htmd::{Element, HtmlToMarkdown};
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, LocalName, QualName, local_name, ns};
use markup5ever_rcdom::{Handle, Node, NodeData};
use url::Url;

use super::tree::{Tree, attribute, elements, first, parse, text_of};

/// Maximum nesting of kept elements. Deeper ones are flattened.
const DEPTH_MAX: usize = 64;

/// Maximum characters of a table once its cells have equal width.
const TABLE_CHARS_MAX: usize = 100_000;

/// Minimum text of a `<main>`. One with less does not contain the page's subject.
const MAIN_CHARS_MIN: usize = 200;

const TITLE_CHARS_MAX: usize = 300;

/// Elements that are not for reading, with their content.
const LEFT_OUT: &[&str] = &[
    "script", "style", "noscript", "template", "title", "nav", "footer", "svg", "canvas", "iframe",
    "frame", "object", "embed", "audio", "video", "button", "select", "input", "textarea",
    "dialog", "datalist", "noframes",
];

/// Elements for which htmd has a Markdown form.
const KEPT: &[&str] = &[
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "table",
    "thead",
    "tbody",
    "tfoot",
    "tr",
    "td",
    "th",
    "caption",
    "pre",
    "code",
    "blockquote",
    "br",
    "hr",
    "a",
    "img",
];

/// Elements that begin on a new line. Tags of all others are ignored.
const BLOCKS: &[&str] = &[
    "div",
    "section",
    "article",
    "main",
    "header",
    "aside",
    "figure",
    "figcaption",
    "dl",
    "dt",
    "dd",
    "details",
    "summary",
    "form",
    "fieldset",
    "legend",
    "address",
    "center",
    "hgroup",
    "search",
    "menu",
];

pub(super) struct ReadHtml {
    pub(super) title: Option<String>,
    pub(super) text: String,
    /// False if the page exceeded the bounds.
    pub(super) whole: bool,
}

/// Returns the readable part of a page from `url`.
pub(super) fn read(html: &str, url: &Url) -> ReadHtml {
    let Tree { document, whole } = parse(html);
    let found = first(&document, "title").map(|title| text_of(&title));
    let title = found.map(|title| title.chars().take(TITLE_CHARS_MAX).collect());
    let base = first(&document, "base").and_then(|base| url.join(&attribute(&base, "href")?).ok());
    let base = base.as_ref().unwrap_or(url);
    let main = first(&document, "main").map(|main| markdown(&main, base));
    let main = main.filter(|text| text.chars().nth(MAIN_CHARS_MIN).is_some());
    let text = main.unwrap_or_else(|| markdown(&document, base));
    ReadHtml { title: title.filter(|title: &String| !title.is_empty()), text, whole }
}

fn markdown(node: &Handle, base: &Url) -> String {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        hr_style: HrStyle::Dashes,
        br_style: BrStyle::Backslash,
        ..Options::default()
    };
    let table = |handlers: &dyn Handlers, table: Element<'_>| match is_small(table.node) {
        true => handlers.fallback(table),
        false => Some(handlers.walk_children(table.node)),
    };
    let converter =
        HtmlToMarkdown::builder().options(options).add_handler(vec!["table"], table).build();
    let converted = converter.tree_to_markdown(&readable_copy(node, base));
    // Removed elements leave lines of blanks.
    let (mut text, mut empty) = (String::with_capacity(converted.len()), 0);
    for line in converted.lines().map(str::trim_end) {
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty <= 1 {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns true if a table stays small when it is written with columns of equal width.
fn is_small(table: &Handle) -> bool {
    let (mut rows, mut columns, mut width) = (0, 0, 0);
    for (name, node) in elements(table) {
        match name.as_str() {
            "tr" => {
                rows += 1;
                columns = columns.max(node.children.borrow().len());
            }
            // Nested cells are counted twice, which does no harm.
            "td" | "th" => width = width.max(text_of(&node).chars().count()),
            _ => {}
        }
    }
    rows * columns * width <= TABLE_CHARS_MAX
}

/// Returns a copy of the readable part: links absolute, with limited depth, other elements without their
/// tags.
fn readable_copy(node: &Handle, base: &Url) -> Handle {
    let document = Node::new(NodeData::Document);
    let mut waiting = vec![(node.clone(), document.clone(), 0)];
    while let Some((node, parent, depth)) = waiting.pop() {
        let (parent, depth) = match &node.data {
            NodeData::Text { contents } => {
                add(&parent, NodeData::Text { contents: contents.clone() });
                continue;
            }
            NodeData::Element { name, .. } => match keep(&name.local, &node, base) {
                Keep::Nothing => continue,
                Keep::Inside => (parent, depth),
                Keep::As(..) if depth >= DEPTH_MAX => (parent, depth),
                Keep::As(tag, attributes) => {
                    separate(&parent, &tag);
                    (add(&parent, element(&tag, attributes)), depth + 1)
                }
            },
            _ => (parent, depth),
        };
        let children = node.children.borrow();
        waiting.extend(children.iter().rev().map(|child| (child.clone(), parent.clone(), depth)));
    }
    document
}

/// The treatment of an element.
enum Keep {
    Nothing,
    /// Keep its content, but not its tag.
    Inside,
    As(LocalName, Vec<Attribute>),
}

fn keep(tag: &LocalName, node: &Handle, base: &Url) -> Keep {
    if LEFT_OUT.contains(&&**tag) || is_hidden(node) {
        return Keep::Nothing;
    }
    if BLOCKS.contains(&&**tag) {
        return Keep::As(local_name!("div"), Vec::new());
    }
    if !KEPT.contains(&&**tag) {
        return Keep::Inside;
    }
    let link = |name: &str| {
        let url = base.join(attribute(node, name)?.trim()).ok()?;
        matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.to_string())
    };
    match &**tag {
        // A link to a place on the same page is useless.
        "a" if attribute(node, "href").is_none_or(|href| href.trim().starts_with('#')) => {
            Keep::Inside
        }
        "a" => match link("href") {
            Some(url) => Keep::As(tag.clone(), vec![new_attribute(local_name!("href"), &url)]),
            None => Keep::Inside,
        },
        "img" => match (attribute(node, "alt").filter(|alt| !alt.trim().is_empty()), link("src")) {
            (Some(alt), Some(url)) => {
                let alt = new_attribute(local_name!("alt"), &alt);
                Keep::As(tag.clone(), vec![new_attribute(local_name!("src"), &url), alt])
            }
            _ => Keep::Nothing,
        },
        "ol" => {
            let start = attribute(node, "start").and_then(|start| start.parse::<u16>().ok());
            let start = start.map(|start| new_attribute(local_name!("start"), &start.to_string()));
            Keep::As(tag.clone(), start.into_iter().collect())
        }
        "code" | "pre" => {
            let class = attribute(node, "class").filter(|class| class.starts_with("language-"));
            let class = class.map(|class| new_attribute(local_name!("class"), &class));
            Keep::As(tag.clone(), class.into_iter().collect())
        }
        _ => Keep::As(tag.clone(), Vec::new()),
    }
}

fn is_hidden(node: &Node) -> bool {
    let NodeData::Element { attrs, .. } = &node.data else { return false };
    attrs.borrow().iter().any(|attr| match &*attr.name.local {
        "hidden" => true,
        "aria-hidden" => &*attr.value == "true",
        "role" => &*attr.value == "navigation",
        "style" => attr.value.replace(' ', "").contains("display:none"),
        _ => false,
    })
}

/// Puts an empty node between two pieces of code, which htmd would otherwise join by copying them again
/// and again.
fn separate(parent: &Handle, tag: &str) {
    let is_code = parent.children.borrow().last().is_some_and(|last| match &last.data {
        NodeData::Element { name, .. } => name.local == local_name!("code"),
        _ => false,
    });
    if is_code && tag == "code" {
        add(parent, NodeData::Text { contents: RefCell::new(StrTendril::new()) });
    }
}

fn add(parent: &Handle, data: NodeData) -> Handle {
    let node = Node::new(data);
    node.parent.set(Some(Rc::downgrade(parent)));
    parent.children.borrow_mut().push(node.clone());
    node
}

fn element(tag: &LocalName, attributes: Vec<Attribute>) -> NodeData {
    NodeData::Element {
        name: QualName::new(None, ns!(html), tag.clone()),
        attrs: RefCell::new(attributes),
        template_contents: RefCell::new(None),
        mathml_annotation_xml_integration_point: false,
    }
}

fn new_attribute(name: LocalName, value: &str) -> Attribute {
    Attribute { name: QualName::new(None, ns!(), name), value: StrTendril::from(value) }
}
