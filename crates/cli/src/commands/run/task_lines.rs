//! The list of tasks below the lines of sub-agents on a terminal.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use report::{Tone, fit, plain};
use store::TaskStatus;

/// Maximum number of tasks with a line. The first ones that are not done are shown.
const MAX_LINES: usize = 8;

/// The lines of the list.
#[derive(Default)]
pub(super) struct TaskLines {
    lines: Vec<ProgressBar>,
}

impl TaskLines {
    /// Returns whether there is a list.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns its first line.
    pub(super) fn first(&self) -> Option<&ProgressBar> {
        self.lines.first()
    }

    /// Shows the tasks as they are now.
    pub(super) fn update(
        &mut self,
        all: &MultiProgress,
        tasks: &[(String, TaskStatus, String)],
        width: usize,
    ) {
        let texts = task_texts(tasks, width.saturating_sub(1));
        while self.lines.len() > texts.len() {
            let Some(line) = self.lines.pop() else { break };
            line.finish_and_clear();
            all.remove(&line);
        }
        while self.lines.len() < texts.len() {
            let style = ProgressStyle::with_template("{msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
            self.lines.push(all.add(ProgressBar::new_spinner().with_style(style)));
        }
        for (line, text) in self.lines.iter().zip(texts) {
            line.set_message(text);
            line.tick();
        }
    }
}

/// Returns the lines of a list: how many tasks are done, and what is left.
pub(super) fn task_texts(tasks: &[(String, TaskStatus, String)], width: usize) -> Vec<String> {
    if tasks.is_empty() {
        return Vec::new();
    }
    let is_open = |status: TaskStatus| matches!(status, TaskStatus::Pending | TaskStatus::InProgress);
    let done = tasks.iter().filter(|(_, status, _)| *status == TaskStatus::Complete).count();
    let mut lines = vec![format!("  tasks: {done} of {} complete", tasks.len())];
    let shown: Vec<_> = match tasks.len() <= MAX_LINES {
        true => tasks.iter().collect(),
        false => tasks.iter().filter(|(_, status, _)| is_open(*status)).take(MAX_LINES).collect(),
    };
    for (_, status, subject) in shown {
        let sign = match status {
            TaskStatus::Complete => Tone::Good.paint("✓"),
            TaskStatus::InProgress => "▸".to_owned(),
            TaskStatus::Pending => Tone::Faint.paint("·"),
            TaskStatus::Failed | TaskStatus::Cancelled => Tone::Bad.paint("✗"),
        };
        lines.push(fit(&format!("  {sign} {}", plain(subject)), width));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_shows_what_is_left() {
        let task = |n: usize, status| (format!("r.2.0.{n}"), status, format!("part {n}\nof it"));
        let mut tasks: Vec<_> = (0..4).map(|n| task(n, TaskStatus::Complete)).collect();
        let texts = |tasks: &[_]| -> Vec<String> {
            task_texts(tasks, 80).iter().map(|line| report::terminal_text(line, false)).collect()
        };
        tasks[1].1 = TaskStatus::InProgress;
        tasks[2].1 = TaskStatus::Failed;
        let expected = [
            "  tasks: 2 of 4 complete",
            "  ✓ part 0 of it",
            "  ▸ part 1 of it",
            "  ✗ part 2 of it",
            "  ✓ part 3 of it",
        ];
        assert_eq!(texts(&tasks), expected);
        tasks.extend((4..20).map(|n| task(n, TaskStatus::Pending)));
        let long = texts(&tasks);
        assert_eq!((long.len(), &*long[1], &*long[8]), (9, "  ▸ part 1 of it", "  · part 10 of it"));
        assert_eq!(texts(&[]), Vec::<String>::new());
    }
}
