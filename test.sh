#!/usr/bin/env bash
# Runs every test with nothing skipped. It needs Go and a network; what else the tests need it installs where it may (as root,
# with apt-get), and says so. Nothing is installed that is there already.
#
#   ./test.sh             everything
#   JOBS=1 ./test.sh      one package at a time
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

export EFFECTONCE_TEST_ALL=1
jobs=${JOBS:-2}
node_major_min=20
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

say() { printf '\n== %s\n' "$*"; }
die() {
    printf 'test.sh: %s\n' "$*" >&2
    exit 1
}

# --- what the tests need ---------------------------------------------------------------------------------------------------

install_packages() { # install_packages why package...
    local why=$1
    shift
    if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
        die "$why, and this cannot be installed from here (it takes root and apt-get). Install it and run again: $*"
    fi
    say "$why: installing $* with apt-get"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "$@" >"$logs/apt" 2>&1 || {
        cat "$logs/apt" >&2
        die "apt-get could not install $*"
    }
}

node_is_enough() {
    command -v node >/dev/null && command -v npm >/dev/null &&
        [ "$(node -p 'process.versions.node.split(".")[0]')" -ge "$node_major_min" ]
}

# Debian keeps the programs of PostgreSQL off the path.
has_program() {
    local p
    command -v "$1" >/dev/null && return
    for p in /usr/lib/postgresql/*/bin/"$1" /usr/sbin/"$1" /usr/local/bin/"$1"; do
        [ ! -x "$p" ] || return 0
    done
    return 1
}

command -v go >/dev/null || die "Go is missing. Get it from go.dev/dl, at least the version that go.mod names"
say "Go: $(go version)"
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ ! -e /etc/debian_version ] ||
    install_packages "no root certificates, which downloads need" ca-certificates
[ ! -d examples/agent-python ] || command -v python3 >/dev/null || install_packages "Python 3 is missing, in which an example agent is written" python3
if [ -f integration/go.mod ]; then
    if ! node_is_enough; then
        install_packages "Node $node_major_min or newer with npm is missing, which the third-party provider double needs" nodejs npm
        node_is_enough || die "Node is $(node --version 2>/dev/null || echo missing), the tests need $node_major_min or newer. Install it and run again"
    fi
    say "Node: $(node --version), npm: $(npm --version)"
fi
if [ -d store/postgres ]; then
    if ! has_program initdb; then
        # Debian's package would make a database cluster of its own; the tests start theirs in a temporary directory.
        if [ "$(id -u)" -eq 0 ] && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
            mkdir -p /etc/postgresql-common
            echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
        fi
        install_packages "PostgreSQL is missing, which the tests of its driver start" postgresql
    fi
    has_program pgbouncer || install_packages "PgBouncer is missing, behind which the PostgreSQL driver is tested" pgbouncer
fi
say "Go modules"
go mod download
if [ -f integration/go.mod ]; then (cd integration && go mod download); fi

# --- running and counting --------------------------------------------------------------------------------------------------

summary=()
failed=0
passed_tests=0
skipped_tests=0

finish_step() { # finish_step name status start
    local took=$((SECONDS - $3))
    if [ "$2" -eq 0 ]; then
        summary+=("$(printf 'ok    %4ds  %s' "$took" "$1")")
    else
        summary+=("$(printf 'FAIL  %4ds  %s' "$took" "$1")")
        failed=1
    fi
}

step() { # step name command...
    local name=$1 start=$SECONDS status=0
    shift
    say "$name"
    "$@" || status=$?
    finish_step "$name" "$status" "$start"
}

# Reads go test -json: prints a line for each package, the output of what failed or was skipped, and at the end the counts.
readonly report='
function text(line,   s) {
    if (!match(line, /"Output":"/)) return ""
    s = substr(line, RSTART + 10)
    sub(/"[^"]*}$/, "", s)
    gsub(/\\\\/, "\001", s); gsub(/\\n/, "\n", s); gsub(/\\t/, "\t", s); gsub(/\\"/, "\"", s)
    gsub(/\\u003c/, "<", s); gsub(/\\u003e/, ">", s); gsub(/\\u0026/, "\\&", s); gsub(/\\u001b\[[0-9;]*m/, "", s); gsub("\001", "\\", s)
    return s
}
function field(line, name,   s) {
    if (!match(line, "\"" name "\":\"[^\"]*\"")) return ""
    s = substr(line, RSTART, RLENGTH)
    gsub("^\"" name "\":\"|\"$", "", s)
    return s
}
!/^\{/ { print; next }
{
    action = field($0, "Action"); test = field($0, "Test"); at = field($0, "Package") SUBSEP test
}
action == "build-output" { printf "%s", text($0); next }
action == "output" {
    out = text($0)
    if (test == "" && out ~ /^(ok|FAIL|\?|---)[ \t]/) { if (out !~ /no test files/) printf "%s", out }
    else if (length(kept[at]) < 60000) kept[at] = kept[at] out
    next
}
action == "pass" { if (test != "") passed++; delete kept[at] }
action == "fail" { if (kept[at] != "") printf "%s", kept[at]; delete kept[at] }
action == "skip" && test != "" { skipped++; printf "%s", kept[at]; delete kept[at] }
END { print passed + 0, skipped + 0 > counts }
'

go_tests() { # go_tests directory arguments...
    local dir=$1 status=0 passed skipped
    shift
    (cd "$dir" && go test -count=1 -p "$jobs" -timeout 20m -json "$@") 2>&1 | awk -v counts="$logs/counts" "$report" || status=$?
    read -r passed skipped <"$logs/counts"
    passed_tests=$((passed_tests + passed))
    skipped_tests=$((skipped_tests + skipped))
    return "$status"
}

examples_are_valid() {
    local file
    for file in examples/*/effectonce.yaml; do
        [ -e "$file" ] || continue
        printf '%s\n' "$file"
        STRIPE_KEY=${STRIPE_KEY:-sk_test_example} go run ./cmd/effectonce policy check "$file" || return 1
    done
}

step "go vet" go vet ./...
step "go test ./... (nothing skipped, $jobs packages at a time)" go_tests . ./...
if [ -f integration/go.mod ]; then
    step "integration: go vet" bash -c 'cd integration && go vet ./...'
    step "integration: third-party software" go_tests integration ./...
fi
step "examples: their configurations are valid" examples_are_valid

if [ "$skipped_tests" -gt 0 ]; then
    failed=1
fi
say "summary"
printf '%s\n' "${summary[@]}"
printf '%d tests passed, %d skipped, %ds in all\n' "$passed_tests" "$skipped_tests" "$SECONDS"
if [ "$failed" -ne 0 ]; then
    echo "test.sh: FAILED"
    exit 1
fi
echo "test.sh: everything passed"
