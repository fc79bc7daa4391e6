#!/bin/bash
# Runs all tests, suite by suite, and prints one line that sums them up: `make test`. Tests that cannot run here are
# skipped and counted. With CHECK=1 it runs few cases of tests that draw them, and of the end-to-end tests those in
# tests/check.txt: `make check`.
# The Makefile gives BUILD (the folder with the program and with the Python that tests/deps.sh chose), UNITS and CUDA.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
build=${BUILD:-build}
python=$build/python
tilerun=$build/tilerun
# Tests share the cores, so OpenMP threads that wait must yield their core and not spin.
export OMP_WAIT_POLICY=passive
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache # measured limits: not the user's

passed=0 failed=0 skipped=0

# Counts a suite: its name, and how many passed, failed and were skipped.
count() {
    printf '%-28s %5d passed' "$1" "$2"
    [ "$3" = 0 ] || printf ', %d failed' "$3"
    [ "$4" = 0 ] || printf ', %d skipped' "$4"
    echo
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
}

# Prints the sum of the numbers that phrases matching $3 begin with, over the lines of log $1 that match $2.
sum() { grep -E "$2" "$1" | grep -oE "$3" | awk '{n += $1} END {print n + 0}'; }

run_pytest() { # a suite's name, and what it consists of
    TILERUN=$(realpath "$tilerun") REAL=$(realpath "$build")/real \
        "$python" -m pytest -p no:cacheprovider -q -rs --color=no --tb=short "${@:2}" > "$scratch/$1" 2>&1
    echo $? > "$scratch/$1.status"
}

# ---- slurm: a cluster on this machine, which mostly waits, beside all others but the timings --------------------------
[ ! -x "$python" ] || [ -n "${CHECK:-}" ] || run_pytest slurm tests/slurm &

# ---- unit: cmocka programs, one or more groups of tests each, on all cores ------------------------------------------
run_unit() {
    [ -z "${CHECK:-}" ] || export TILERUN_CASES=20
    timeout 600 "$1" > "$scratch/${1##*/}.log" 2>&1
    echo $? > "$scratch/${1##*/}.status"
}
export -f run_unit
export scratch
# shellcheck disable=SC2016,SC2086 # for the inner shell to expand; several words
printf '%s\0' ${UNITS:?are the unit tests, which the Makefile names} |
    xargs -0 -n 1 -P "$(nproc)" bash -c 'run_unit "$1"' unit
for unit in $UNITS; do
    log=$scratch/${unit##*/}.log
    status=$(< "$scratch/${unit##*/}.status")
    good=$(sum "$log" '^\[  PASSED  \]' '[0-9]+ test')
    bad=$(sum "$log" '^\[  FAILED  \]' '[0-9]+ test\(s\), listed')
    absent=$(sum "$log" '^\[  SKIPPED \]' '[0-9]+ test\(s\), listed')
    # A program that exits with an error but reports no failed test (a crash, a leak) has failed as well.
    [ "$status" = 0 ] || [ "$bad" != 0 ] || bad=1
    [ "$bad" = 0 ] || { cat "$log"; echo "$unit: exit status $status"; }
    count "unit/${unit##*/}" "$good" "$bad" "$absent"
done

# ---- golden: job files and the exact words about them, on all cores ---------------------------------------------------
# Runs `tilerun check FILE` and compares its exit status and its stderr, to the byte. Says what differs, and whether.
check() {
    local file=$1 status=$2 expected=$3 log=$scratch/check-${1//\//-}
    "$tilerun" check "$file" > "$log.out" 2> "$log.err"
    local got=$?
    if [ "$got" = "$status" ] && diff "$expected" "$log.err" > "$log.diff" && [ ! -s "$log.out" ]; then
        echo good
    else
        echo "bad: tilerun check $file: exit status $got, should be $status; its words (> are what it said):" \
            "$(cat "$log.diff" "$log.out" 2> /dev/null)"
    fi
}
export -f check
export tilerun

{
    for file in tests/jobs/bad/*.yaml; do printf '%s\0' "$file" 2 "${file%.yaml}.expected"; done
    for file in tests/jobs/good/*.yaml configs/*.yaml configs/*/*.yaml; do
        # Of data that a script has yet to make, or that the user has: e2e/test_families.py and test_recipe_jobs.py
        # do those.
        said=${file%.yaml} said=tests/jobs/good/${said//\//-}.expected # of what `check` remarks on
        [ -e "$said" ] || said=/dev/null
        [[ $file == configs/recipes/* ]] || grep -q data/generated/ "$file" || printf '%s\0' "$file" 0 "$said"
    done
} | xargs -0 -n 3 -P "$(nproc)" bash -c 'check "$@"' check > "$scratch/jobs"
grep -v '^good$' "$scratch/jobs"
count "jobs" "$(grep -c '^good$' "$scratch/jobs")" "$(grep -c '^bad: ' "$scratch/jobs")" 0

# ---- generated: these files are what the program would write now ----------------------------------------------------
if tests/generate.sh "$tilerun" --check; then count "generated" 1 0 0; else count "generated" 0 1 0; fi

# ---- pytest: end to end, on all cores where pytest-xdist is there; then those with other people's packages, with the
# ---- Python that has them; then timings, one at a time -----------------------------------------------------------------
count_pytest() {
    local log=$scratch/$1 status good bad absent
    status=$(< "$scratch/$1.status")
    tail -n 1 "$log" > "$scratch/last"
    good=$(sum "$scratch/last" '' '[0-9]+ passed')
    bad=$(sum "$scratch/last" '' '[0-9]+ (failed|error)')
    absent=$(sum "$scratch/last" '' '[0-9]+ skipped')
    # 5: no test was selected, as where PYTEST_ADDOPTS names tests of another suite, or whole files are skipped, which
    # are counted; without these, tests have got lost.
    [ "$status" != 5 ] || { [ -z "${PYTEST_ADDOPTS:-}" ] && [ "$absent" = 0 ]; } || status=0
    [ "$status" = 0 ] || [ "$bad" != 0 ] || bad=1
    [ "$bad" = 0 ] || cat "$log"
    grep '^SKIPPED' "$log"
    count "$1" "$good" "$bad" "$absent"
}

if [ -x "$python" ]; then
    cores=() many=(-n $(($(nproc) * 3 / 2)) --dist loadgroup) # more tests than cores, for many wait for their processes
    "$python" -c 'import xdist' 2> /dev/null && cores=("${many[@]}")
fi
if [ -x "$python" ] && [ -n "${CHECK:-}" ]; then
    mapfile -t names < <(sed '/^#/d; s,^,tests/,' tests/check.txt)
    run_pytest e2e "${names[@]}" "${cores[@]}"
    count_pytest e2e
elif [ -x "$python" ]; then
    run_pytest e2e tests/e2e -m 'not timings and not packages' "${cores[@]}"
    mapfile -t packages < <(grep -l mark.packages tests/e2e/*.py)
    (
        [ ! -x "$build/real/venv/bin/python" ] || python=$build/real/venv/bin/python cores=("${many[@]}")
        run_pytest packages "${packages[@]}" -m packages "${cores[@]}"
    )
    wait
    mapfile -t timings < <(grep -l mark.timings tests/e2e/*.py)
    run_pytest timings "${timings[@]}" -m timings
    for suite in e2e packages timings slurm; do count_pytest "$suite"; done
else
    echo "SKIPPED: no Python with its modules"
    count "e2e, packages, timings, slurm" 0 0 4
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
