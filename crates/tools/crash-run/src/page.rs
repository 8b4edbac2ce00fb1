//! The result of a run as a web page.

use std::fmt::Write;
use std::path::Path;

use tantalum_report::html::{escaped, page};
use tantalum_report::table::{count, grouped};
use tantalum_report::{ReportError, save};

use crate::campaign::Outcome;
use crate::finding::Finding;
use crate::summary::{UNAVOIDABLE, counts, why};

/// Writes the page: counts, and a section for each finding.
pub fn write_report(outcome: &Outcome, program: &str, path: &Path) -> Result<(), ReportError> {
    save(&render(outcome, program), path)
}

fn render(outcome: &Outcome, program: &str) -> String {
    let heading = match (outcome.failed, outcome.ended_early) {
        (0, false) => "Survives power loss",
        (0, true) => "No finding so far",
        _ => "Does not survive power loss",
    };
    let lead = format!(
        "<code>{}</code>: power was cut at {} places, in {} different ways; the check failed for {}.",
        escaped(program),
        grouped(outcome.cuts),
        grouped(outcome.checked),
        grouped(outcome.failed),
    );
    let mut contents = String::new();
    for (index, finding) in outcome.findings.iter().enumerate() {
        section(&mut contents, index + 1, finding);
    }
    if outcome.unexplained > 0 {
        let _ = writeln!(contents, "<p>Not explained: {}.</p>", count(outcome.unexplained, "more failure"));
    }
    let _ = writeln!(contents, "<h2>What was tried</h2>\n<div class=\"wide\"><table>");
    for (name, count) in counts(outcome) {
        let _ = writeln!(contents, "<tr><td>{name}</td><td>{}</td></tr>", grouped(count));
    }
    contents.push_str("</table></div>\n");
    if outcome.ended_early {
        contents.push_str("<p>It ended before all cuts had been tried.</p>\n");
    }
    contents.push_str(METHOD);
    page(&format!("tantalum crash run: {program}"), heading, &lead, &contents)
}

const METHOD: &str = "<h2>How to read this</h2>\n<p>The program ran once and was recorded. Power was cut after each of its \
operations, and the check ran on what may be left: any part of what was not synced, in any order, torn at sectors; or what a \
drive leaves, if one was named. A finding is reduced to what must be lost for the check to fail. The syncs named would each make \
the check pass.</p>\n";

fn section(contents: &mut String, number: usize, finding: &Finding) {
    let _ = writeln!(contents, "<h2>Finding {number}: {}</h2>", escaped(&finding.check_ended));
    let _ = writeln!(
        contents,
        "<p>Power was cut after operation {}.</p>\n<dl>",
        escaped(&finding.last_operation)
    );
    let mut item = |name: &str, lines: &[String]| {
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
            let _ = writeln!(contents, "<dt>{name}</dt><dd>{}</dd>", lines.join("<br>"));
        }
    };
    item("lost", &finding.lost);
    item("survived, although later", &finding.there);
    item("the check passes with", &finding.saved_by);
    item("why", why(finding).map(str::to_owned).as_slice());
    item(UNAVOIDABLE.trim_end_matches(':'), &finding.unavoidable);
    let said: Vec<String> = finding.check_said.lines().map(str::to_owned).collect();
    item("the check said", &said);
    if finding.also > 0 {
        item("for the same reason", &[count(finding.also, "more outcome")]);
    }
    if let Some(saved) = &finding.saved {
        item("again", &[format!("tantalum crash replay {}", saved.display())]);
    }
    contents.push_str("</dl>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_tells_what_was_lost_and_takes_no_text_for_html() {
        let finding = Finding {
            after_operations: 1,
            last_operation: "1. rename <a> to b".to_owned(),
            check_ended: "exit code 1".to_owned(),
            check_said: "no & no".to_owned(),
            lost: vec!["0. write".to_owned()],
            there: Vec::new(),
            saved_by: vec!["fsync a".to_owned()],
            unavoidable: Vec::new(),
            without_loss: None,
            also: 3,
            saved: None,
        };
        let outcome = Outcome { failed: 4, findings: vec![finding], ..Outcome::default() };
        let page = render(&outcome, "./run <x>");
        for part in ["Does not survive", "rename &lt;a&gt; to b", "no &amp; no", "<dd>fsync a</dd>", "3 more"]
        {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("<x>") && !page.contains("survived, although"));
        assert!(render(&Outcome::default(), "x").contains("Survives power loss"));
    }
}
