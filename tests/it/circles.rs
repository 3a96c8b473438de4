//! Circles of files: files of a module that need each other, directly or by way of others. A reader has to understand
//! such files together, so they are few. Reads the paths in the code as text; calls of methods are not seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{is_name, none, rust_files};

/// Files that a reader can hold in mind together.
const CIRCLE_MAX: usize = 3;

/// Words after which the name of an item stands.
const ITEMS: [&str; 10] =
    ["struct", "enum", "trait", "type", "fn", "const", "static", "union", "mod", "macro_rules"];

/// Names between `::`.
type NamePath = Vec<String>;

/// One file of the library: its names, and the paths in it.
#[derive(Default)]
struct SourceFile {
    /// Items that are defined in it.
    items: BTreeSet<String>,
    /// Paths of `use`, by the names that they bring.
    uses: BTreeMap<String, NamePath>,
    /// Those names of `use` that are only handed on, unless the file itself says them.
    handed_on: BTreeSet<String>,
    /// Paths outside of `use`.
    paths: BTreeSet<NamePath>,
    /// All other names.
    words: BTreeSet<String>,
}

/// The files of the library, by their modules.
struct SourceTree(BTreeMap<NamePath, SourceFile>);

#[test]
fn circles_of_files_are_small() {
    let files = rust_files(&["src"]);
    let texts: Vec<_> = files.iter().map(|file| (file.name(), file.text())).collect();
    let sources = texts.iter().filter_map(|(name, text)| {
        let name = name.strip_prefix("src/")?.strip_suffix(".rs")?;
        (!matches!(name, "lib" | "main")).then_some((name, *text))
    });
    let large = SourceTree::parse(sources).circles().into_iter();
    let large = large.filter(|circle| circle.len() > CIRCLE_MAX);
    none(
        large.map(|circle| format!("{}: {}", circle.len(), circle.join(", "))),
        "move what these files share to a file of its own",
    );
}

#[test]
fn a_circle_is_found_however_its_paths_are_written() {
    let sources = [
        // A name that is only handed on makes no circle.
        (
            "a",
            "mod b; mod c; mod d; mod e; pub use b::One; pub(crate) use e::Five; fn f(_: Five) {}",
        ),
        ("a/b", "use super::c::{self, Two as Other}; pub struct One(Other); // super::e"),
        ("a/c", "pub struct Two(crate::a::d::Three); const TEXT: &str = \"super::e::Five\";"),
        (
            "a/d",
            "use crate::{a::One, x::Six}; pub struct Three(One, Six); pub(in crate::a) fn g() {}",
        ),
        ("a/e", "pub struct Five; fn h() { super::f(Five) }"),
        ("x", "pub struct Six; use crate::a::One;"),
    ];
    let circles = SourceTree::parse(sources).circles();
    assert_eq!(circles, [vec!["a", "a::e"], vec!["a::b", "a::c", "a::d"]]);
}

impl SourceFile {
    fn parse(code: &str) -> Self {
        let tokens = tokens(code);
        let mut file = Self::default();
        let mut at = 0;
        while at < tokens.len() {
            let before = at.checked_sub(1).map_or("", |before| tokens[before]);
            match tokens[at] {
                // `pub(in path)` says who may use an item, and uses nothing.
                "pub" if tokens.get(at + 1) == Some(&"(") => {
                    at += tokens[at..].iter().position(|token| *token == ")").unwrap_or(0);
                }
                "use" => {
                    let length = tokens[at..].iter().position(|token| *token == ";");
                    let end = at + length.unwrap_or(1);
                    let is_public = matches!(before, "pub" | ")");
                    for (name, path) in used(&tokens[at + 1..end]) {
                        if is_public {
                            file.handed_on.insert(name.clone());
                        }
                        file.uses.insert(name, path);
                    }
                    at = end;
                }
                item if ITEMS.contains(&item) => {
                    let names = tokens[at + 1..].iter().find(|token| **token != "!");
                    file.items.extend(names.map(|name| (*name).to_owned()));
                }
                name if name.starts_with(is_name) && before != "::" => {
                    let mut path = vec![name.to_owned()];
                    while let Some(["::", next]) = tokens.get(at + 1..at + 3)
                        && next.starts_with(is_name)
                    {
                        path.push((*next).to_owned());
                        at += 2;
                    }
                    file.words.insert(name.to_owned());
                    if path.len() > 1 {
                        file.paths.insert(path);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        file
    }
}

impl SourceTree {
    fn parse<'a>(sources: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let module = |name: &str| name.split('/').map(str::to_owned).collect();
        let files = sources.into_iter();
        Self(files.map(|(name, code)| (module(name), SourceFile::parse(code))).collect())
    }

    /// Groups of files that need each other, each of one module, as paths.
    fn circles(&self) -> Vec<Vec<String>> {
        let needs: BTreeMap<_, _> =
            self.0.keys().map(|module| (module, self.needs(module))).collect();
        let reached: BTreeMap<_, _> = self.0.keys().map(|it| (it, reached(it, &needs))).collect();
        let mut circles = BTreeSet::new();
        for module in self.0.keys() {
            let circle = reached[module].iter().filter(|other| reached[*other].contains(module));
            let circle: BTreeSet<_> = circle.map(|module| module.join("::")).collect();
            if circle.len() > 1 {
                circles.insert(circle.into_iter().collect());
            }
        }
        circles.into_iter().collect()
    }

    /// The files of the same module in which the names of a file are defined.
    fn needs(&self, module: &NamePath) -> BTreeSet<&NamePath> {
        let file = &self.0[module];
        let said = |name: &String| !file.handed_on.contains(name) || file.words.contains(name);
        let used = file.uses.iter().filter(|(name, _)| said(name)).map(|(_, path)| path.clone());
        let inline = file.paths.iter().map(|path| match file.uses.get(&path[0]) {
            Some(start) => [start, &path[1..]].concat(),
            None => path.clone(),
        });
        let paths = used.chain(inline).filter_map(|path| self.absolute(module, &path));
        let found = paths.filter_map(|path| self.definition(&path, 0));
        found.filter(|found| *found != module && found[0] == module[0]).collect()
    }

    /// The path from the crate's root; none for a path into another crate.
    fn absolute(&self, module: &NamePath, path: &[String]) -> Option<NamePath> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (&module[..], &path[1..]),
            "super" => (&module[..module.len().checked_sub(supers)?], &path[supers..]),
            _ => (&module[..], path),
        };
        let full = [base, rest].concat();
        let is_own = matches!(path[0].as_str(), "crate" | "self" | "super");
        (is_own || self.0.contains_key(&full[..=module.len()])).then_some(full)
    }

    /// The file in which the item at a path is defined, also by way of files that hand it on.
    fn definition(&self, path: &NamePath, hops: usize) -> Option<&NamePath> {
        const HOPS_MAX: usize = 8;
        let length = (1..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length]))?;
        let (module, file) = self.0.get_key_value(&path[..length])?;
        let handed_on = path.get(length).filter(|name| !file.items.contains(*name));
        let Some(further) = handed_on.and_then(|name| file.uses.get(name)) else {
            return Some(module);
        };
        let further = [further, &path[length + 1..]].concat();
        let further = self.absolute(module, &further).filter(|_| hops < HOPS_MAX);
        further.map_or(Some(module), |further| self.definition(&further, hops + 1))
    }
}

/// All files that one leads to, itself only if it is in a circle.
fn reached<'a>(
    from: &NamePath,
    needs: &BTreeMap<&'a NamePath, BTreeSet<&'a NamePath>>,
) -> BTreeSet<&'a NamePath> {
    let mut found = BTreeSet::new();
    let mut next: Vec<_> = needs[from].iter().copied().collect();
    while let Some(module) = next.pop() {
        if found.insert(module) {
            next.extend(&needs[module]);
        }
    }
    found
}

/// The paths of a `use`, each with the name that it brings.
fn used(tokens: &[&str]) -> Vec<(String, NamePath)> {
    let mut found = Vec::new();
    let mut outer: Vec<NamePath> = Vec::new();
    let (mut path, mut name): (NamePath, Option<String>) = (Vec::new(), None);
    let mut tokens = tokens.iter().chain([&","]);
    while let Some(token) = tokens.next() {
        match *token {
            "::" => {}
            "{" => outer.push(std::mem::take(&mut path)),
            "as" => name = tokens.next().map(|it| (*it).to_owned()),
            "," | "}" => {
                let mut full = [outer.concat(), std::mem::take(&mut path)].concat();
                let is_empty = full.len() == outer.concat().len();
                if full.last().is_some_and(|last| last == "self") && full.len() > 1 {
                    full.pop();
                }
                if let (false, Some(last)) = (is_empty, full.last().cloned()) {
                    found.push((name.take().unwrap_or(last), full));
                }
                if *token == "}" {
                    outer.pop();
                }
            }
            part => path.push(part.to_owned()),
        }
    }
    found
}

/// Names, `::` and other signs, without comments and texts.
fn tokens(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => end_of_text(rest),
            'r' if rest.starts_with("r#\"") || rest.starts_with("r\"") => end_of_raw_text(rest),
            // The character, and no text.
            '\'' if rest.starts_with("'\"'") => 3,
            first if is_name(first) => rest.find(|it| !is_name(it)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            first => first.len_utf8(),
        };
        let token = &rest[..length];
        let is_left_out = token.starts_with("//") || token.contains('"') || first.is_whitespace();
        if !is_left_out {
            found.push(token);
        }
        rest = &rest[length..];
    }
    found
}

/// The length of a text with its quotation marks.
fn end_of_text(code: &str) -> usize {
    let mut is_escaped = false;
    let end = code.char_indices().skip(1).find_map(|(at, sign)| {
        let ends = sign == '"' && !is_escaped;
        is_escaped = sign == '\\' && !is_escaped;
        ends.then_some(at + 1)
    });
    end.unwrap_or(code.len())
}

/// The same for a raw text.
fn end_of_raw_text(code: &str) -> usize {
    let (open, close) = if code.starts_with("r#") { (3, "\"#") } else { (2, "\"") };
    code[open..].find(close).map_or(code.len(), |at| open + at + close.len())
}
