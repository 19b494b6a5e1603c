use super::*;

/// A verdict of offshoot 0.1.0, before its values could be read back.
const VERDICT_0_1_0: &str = include_str!("../../tests/fixtures/verdict-0.1.0.json");

#[test]
fn a_verdict_of_the_version_before_is_read_and_written_with_the_same_bytes() {
    let verdict = Verdict::from_json(VERDICT_0_1_0.as_bytes()).expect("a verdict");
    assert_eq!((verdict.required, verdict.level), (Level::E3, Some(Level::E2)));
    assert_eq!(verdict.outcome, VerdictOutcome::Differs);
    assert!(!verdict.differences.is_empty() && !verdict.tolerances.masks.is_empty());
    assert_eq!(serde_json::to_string(&verdict).expect("JSON"), VERDICT_0_1_0.trim_end());
}

#[test]
fn other_json_is_no_verdict() {
    let error = |json: &str| Verdict::from_json(json.as_bytes()).expect_err("no verdict");
    assert!(matches!(error(r#"{"format": 1}"#), VerdictFileError::Malformed(_)));
    assert!(matches!(error(r#"{"format": 1, "surfaces": []}"#), VerdictFileError::Malformed(_)));
    assert!(matches!(error(r#"{"format": 99, "surfaces": []}"#), VerdictFileError::UnknownFormat(99)));
}
