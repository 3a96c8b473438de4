//! Merges two changes of one text, line by line. Pure.

use std::ops::Range;

use similar::{Algorithm, DiffTag, capture_diff_slices};

/// Lines of the former text that one side has replaced.
struct ChangedLines {
    former: Range<usize>,
    /// The lines of that side in their place.
    present: Range<usize>,
}

/// One side of a merge.
struct MergeSide<'a> {
    lines: Vec<&'a str>,
    changes: Vec<ChangedLines>,
}

impl<'a> MergeSide<'a> {
    fn new(former: &[&str], text: &'a str) -> Self {
        let lines = split(text);
        let (mut changes, mut at) = (Vec::new(), (0, 0));
        let mut change_until = |former: usize, present: usize, next: (usize, usize)| {
            if (former, present) != at {
                changes.push(ChangedLines { former: at.0..former, present: at.1..present });
            }
            at = next;
        };
        // Only equal lines say where they are: the place of an insertion is not exact.
        for equal in capture_diff_slices(Algorithm::Myers, former, &lines) {
            if equal.tag() == DiffTag::Equal {
                let (old, new) = (equal.old_range(), equal.new_range());
                change_until(old.start, new.start, (old.end, new.end));
            }
        }
        change_until(former.len(), lines.len(), (former.len(), lines.len()));
        Self { lines, changes }
    }

    /// The number of changes from `first` on that belong to a region which ends at `end`.
    fn reaching(&self, first: usize, end: usize) -> usize {
        self.changes[first..].iter().take_while(|change| change.former.start <= end).count()
    }

    /// The lines of this side in the place of `region`, in which it has these changes.
    fn lines_of(
        &self,
        region: &Range<usize>,
        changes: &Range<usize>,
        former: &[&'a str],
    ) -> Vec<&'a str> {
        let (mut at, mut lines) = (region.start, Vec::new());
        for change in &self.changes[changes.clone()] {
            lines.extend_from_slice(&former[at..change.former.start]);
            lines.extend_from_slice(&self.lines[change.present.clone()]);
            at = change.former.end;
        }
        lines.extend_from_slice(&former[at..region.end]);
        lines
    }
}

/// Returns the text with the changes of both sides. None if they change the same lines, or neighbouring ones, in
/// different ways.
pub fn merge(former: &str, one: &str, other: &str) -> Option<String> {
    let former = split(former);
    let (one, other) = (MergeSide::new(&former, one), MergeSide::new(&former, other));
    let (mut at, mut merged) = (0, String::new());
    let (mut first, mut second) = (0, 0);
    loop {
        let begins = [one.changes.get(first), other.changes.get(second)];
        let Some(start) = begins.into_iter().flatten().map(|change| change.former.start).min()
        else {
            break;
        };
        // The region grows as long as a change of either side begins in it or right after it.
        let (mut end, mut count, mut others) = (start, 0, 0);
        loop {
            let reached = (one.reaching(first, end), other.reaching(second, end));
            let last = |side: &MergeSide<'_>, first: usize, count: usize| {
                side.changes[first..first + count].last().map_or(start, |change| change.former.end)
            };
            end = end.max(last(&one, first, reached.0)).max(last(&other, second, reached.1));
            if reached == (count, others) {
                break;
            }
            (count, others) = reached;
        }
        let region = start..end;
        let lines = match (count, others) {
            (_, 0) => one.lines_of(&region, &(first..first + count), &former),
            (0, _) => other.lines_of(&region, &(second..second + others), &former),
            _ => {
                let lines = one.lines_of(&region, &(first..first + count), &former);
                if lines != other.lines_of(&region, &(second..second + others), &former) {
                    return None;
                }
                lines
            }
        };
        merged.extend(former[at..start].iter().copied().chain(lines));
        (at, first, second) = (end, first + count, second + others);
    }
    merged.extend(former[at..].iter().copied());
    Some(merged)
}

/// The lines of a text, each with its end.
fn split(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}
