#!/bin/sh
# Makes .venv and installs this project into it with the versions of constraints.txt.
#
#   tools/venv.sh EXTRAS        e.g. tools/venv.sh demo,test
#
# Run from the top of the project. Does nothing when that was done before for the same place, Python and pins.
# PYTHON names the interpreter; PINS=none takes any versions that pyproject.toml allows instead of the pinned ones.
set -eu

extras=$1
python=${PYTHON:-python3}
stamp=.venv/installed-$(echo "$extras" | tr ',' '-')

fail() {
    printf '\n%s\n' "$@" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "Python is missing: there is no program $python." "On Debian or Ubuntu: apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "Bridgehead needs Python 3.11 or later; $python is $("$python" -V 2>&1)." \
        "Install a newer one (on Debian or Ubuntu: apt-get install python3.11 python3.11-venv) and name it: make PYTHON=python3.11 demo"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# A virtual environment holds absolute paths: one that was made elsewhere or by another Python is made anew, one of others is left alone.
place="$version $(pwd -P)"
if [ "$(cat .venv/made-for 2>/dev/null || true)" != "$place" ]; then
    if [ -e .venv ] && [ ! -e .venv/made-for ]; then
        fail "There is a .venv that this script did not make. Move it away, or remove it with: make clean"
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python cannot make virtual environments: its venv package is missing." \
            "On Debian or Ubuntu: apt-get install python3-venv    (or python$version-venv)"
    echo "Making .venv with Python $version ..." >&2
    rm -rf .venv
    mkdir .venv
    echo unfinished >.venv/made-for
    "$python" -m venv .venv || fail "The virtual environment .venv could not be made; the reason stands above."
    printf '%s\n' "$place" >.venv/made-for
fi

wanted="$(cat pyproject.toml constraints.txt setup.py src/bridgehead/vault/codec/_kernels.c | cksum) ${PINS:-pinned}"
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$wanted" ]; then
    exit 0
fi

pins=constraints.txt
[ "${PINS:-pinned}" = pinned ] || pins=/dev/null
echo "Installing bridgehead[$extras] into .venv ..." >&2
if ! { .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint "$pins" setuptools &&
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint "$pins" --no-build-isolation --editable ".[$extras]"; }; then
    fail "The packages could not be installed; pip's reason stands above." \
        "If a version of constraints.txt cannot be had where you install from, take any version that pyproject.toml allows:" \
        "    make PINS=none demo"
fi
# What was installed for the tests serves the demo too.
for part in $(echo "$extras" | tr ',' ' '); do
    printf '%s\n' "$wanted" >".venv/installed-$part"
done
printf '%s\n' "$wanted" >"$stamp"
