//! Names of programs that run packages.

/// Programs that run what they find in their working folder and in those above it.
pub(super) const PACKAGE_RUNNERS: &[&str] = &[
    "npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "uv", "uvx", "pipx", "deno", "poetry", "cargo",
    "make",
];

/// Returns a program's name without its folder.
pub(super) fn program_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
