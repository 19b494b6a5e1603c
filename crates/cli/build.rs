//! Lets the linker keep one of all functions whose code is the same, which is a fifth of the program.
//!
//! Only where we know the linker: what rustc brings for Linux on x86-64. Whoever has chosen another one, or builds
//! elsewhere, has a larger program that does the same.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let own_linker = env::var_os("RUSTC_LINKER").is_none()
        && !env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"));
    if own_linker && is("TARGET", "x86_64-unknown-linux-gnu") && is("PROFILE", "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
