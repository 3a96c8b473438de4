//! Parses HTML to a tree, like a browser. Pages can be made expensive to parse: a few bytes that open a
//! thousand elements each, or one tag with a million attributes. So a tree is bounded in nodes and in time,
//! and the rest is dropped.

use std::borrow::Cow;
use std::cell::Cell;
use std::time::{Duration, Instant};

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, parse_document};
use markup5ever_rcdom::{Handle, Node, NodeData, RcDom};

use crate::short_text::one_line;

/// Maximum number of elements and comments of one page. A long encyclopedia article has 30,000; each
/// costs some 300 bytes.
const NODES_MAX: usize = 100_000;

/// Time limit for parsing. Long pages take tenths of a second, on a small board perhaps one.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Size of the pieces between which the limits are checked.
const PIECE_BYTES: usize = 8 * 1024;

/// A page as a tree, or the beginning of one.
pub(super) struct Tree {
    pub(super) document: Handle,
    pub(super) whole: bool,
}

pub(super) fn parse(html: &str) -> Tree {
    let sink = Bounded {
        dom: RcDom::default(),
        nodes: Cell::new(0),
        until: Instant::now() + TIME_MAX,
        full: Cell::new(false),
    };
    let mut parser = parse_document(sink, ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(PIECE_BYTES));
        parser.process(StrTendril::from(piece));
        rest = after;
        let sink = &parser.tokenizer.sink.sink;
        sink.check_time();
        if sink.is_full() {
            break;
        }
    }
    let sink = parser.finish();
    Tree { document: sink.dom.document, whole: !sink.full.get() }
}

/// Returns the first element of this name, in the order of the page.
pub(super) fn first(document: &Handle, name: &str) -> Option<Handle> {
    elements(document).find(|(found, _)| found == name).map(|(_, node)| node)
}

/// Returns all elements with their names, in the order of the page.
pub(super) fn elements(document: &Handle) -> impl Iterator<Item = (String, Handle)> {
    let mut waiting = vec![document.clone()];
    std::iter::from_fn(move || {
        while let Some(node) = waiting.pop() {
            waiting.extend(node.children.borrow().iter().rev().cloned());
            if let NodeData::Element { name, .. } = &node.data {
                return Some((name.local.to_string(), node));
            }
        }
        None
    })
}

pub(super) fn attribute(node: &Node, name: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else { return None };
    let attrs = attrs.borrow();
    attrs.iter().find(|attr| &*attr.name.local == name).map(|attr| attr.value.to_string())
}

/// Returns all text below a node, with one blank between words.
pub(super) fn text_of(node: &Handle) -> String {
    let (mut text, mut waiting) = (String::new(), vec![node.clone()]);
    while let Some(node) = waiting.pop() {
        waiting.extend(node.children.borrow().iter().rev().cloned());
        if let NodeData::Text { contents } = &node.data {
            text.push_str(&contents.borrow());
        }
    }
    one_line(&text)
}

/// Builds the tree within its bounds.
struct Bounded {
    dom: RcDom,
    nodes: Cell<usize>,
    until: Instant,
    full: Cell<bool>,
}

impl Bounded {
    fn is_full(&self) -> bool {
        self.full.get()
    }

    fn check_time(&self) {
        if Instant::now() > self.until {
            self.full.set(true);
        }
    }

    fn count(&self) {
        let nodes = self.nodes.get() + 1;
        self.nodes.set(nodes);
        if nodes >= NODES_MAX {
            self.full.set(true);
        }
        if nodes.is_multiple_of(1024) {
            self.check_time();
        }
    }
}

/// Like [`RcDom`], without its expensive operations.
impl TreeSink for Bounded {
    type Handle = Handle;
    type Output = Self;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Self {
        self
    }

    /// Ignored: there may be as many as there are bytes.
    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        self.dom.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        self.dom.elem_name(target)
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Handle {
        self.count();
        self.dom.create_element(name, attrs, flags)
    }

    fn create_comment(&self, _: StrTendril) -> Handle {
        self.count();
        self.dom.create_comment(StrTendril::new())
    }

    fn create_pi(&self, target: StrTendril, text: StrTendril) -> Handle {
        self.count();
        self.dom.create_pi(target, text)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        if !self.is_full() {
            self.dom.append(parent, child);
        }
    }

    fn append_based_on_parent_node(
        &self,
        element: &Handle,
        before: &Handle,
        child: NodeOrText<Handle>,
    ) {
        if !self.is_full() {
            self.dom.append_based_on_parent_node(element, before, child);
        }
    }

    fn append_doctype_to_document(&self, name: StrTendril, public: StrTendril, system: StrTendril) {
        self.dom.append_doctype_to_document(name, public, system);
    }

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.dom.get_template_contents(target)
    }

    fn same_node(&self, a: &Handle, b: &Handle) -> bool {
        self.dom.same_node(a, b)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.dom.set_quirks_mode(mode);
    }

    /// Checks the time, because it searches all siblings for the position, so that many of these take
    /// long.
    fn append_before_sibling(&self, sibling: &Handle, child: NodeOrText<Handle>) {
        self.check_time();
        if !self.is_full() {
            self.dom.append_before_sibling(sibling, child);
        }
    }

    fn add_attrs_if_missing(&self, target: &Handle, attrs: Vec<Attribute>) {
        self.dom.add_attrs_if_missing(target, attrs);
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.dom.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &Handle, parent: &Handle) {
        self.dom.reparent_children(node, parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, target: &Handle) -> bool {
        self.dom.is_mathml_annotation_xml_integration_point(target)
    }

    /// Ignored: it would recurse for each level of the copied element, and nobody reads the result.
    fn maybe_clone_an_option_into_selectedcontent(&self, _: &Handle) {}
}
