#!/usr/bin/env bash
# Proves that the README's two commands work for somebody who has nothing but Rust: in a clone of what is committed,
# with an empty HOME, an empty cargo cache and nothing else in the environment. The demo runs once more where there is
# no network at all. It takes as long as two builds and all tests; `demo` as the only argument leaves the tests out.
#
#   scripts/clean-clone.sh [demo]
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

git clone --quiet --no-hardlinks "$here" "$place/offshoot"
mkdir "$place/home"
cd "$place/offshoot"

# As they stand in the README, or it is not the README that is tried.
demo='cargo run --release -- demo'
tests='cargo xtask test'
for command in "$demo" "$tests"; do
    grep -qxF "$command" README.md || { echo "error: README.md has no line \`$command\`" >&2; exit 1; }
done

# rustup and its toolchains are what "only Rust" means; all else is empty.
fresh=(env -i "PATH=$PATH" "HOME=$place/home" "TERM=${TERM:-dumb}"
    "RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}" "CARGO_HOME=$place/home/.cargo")

try() {
    echo "\$ $*"
    local begun=$SECONDS
    "${fresh[@]}" "$@" || { echo "error: \`$*\` ended with exit code $?" >&2; exit 1; }
    echo "ok, $((SECONDS - begun)) s: $*"
}

# shellcheck disable=SC2086 # a command is its words
try $demo
# Once more without any network but loopback, where the system lets us take it away.
if unshare --user --map-root-user --net true 2>/dev/null; then
    try unshare --user --map-root-user --net sh -c \
        'ip link set lo up && target/release/offshoot demo --dir demo-without-network'
else
    echo "not tried without a network: this system has no user namespaces"
fi
if [ "${1:-}" != demo ]; then
    # shellcheck disable=SC2086
    try $tests
fi
echo "both commands work on a clean clone"
