#!/bin/sh
# Installs the Debian packages of the server programs that the tests name with @pytest.mark.server("..."), when they are missing.
#
# Run from the top of the project. Without root, or without apt, it says the one line to run and leaves the rest to pytest,
# which skips what needs a missing program (and fails instead when BRIDGEHEAD_REQUIRE_SERVERS=1).
set -eu

# Administrators' programs are not on every user's path.
PATH=$PATH:/usr/sbin:/sbin

missing=
for program in $(grep -rhoE 'mark\.server\([^)]*\)' tests --include='*.py' | grep -oE '"[a-z0-9_-]+"' | tr -d '"' | sort -u); do
    package=$(awk -v program="$program" '$1 == program { print $2 }' tests/servers.txt)
    if [ -n "$package" ] && [ "$package" != wheel ] && ! command -v "$program" >/dev/null 2>&1; then
        missing="$missing $package"
    fi
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    printf '\nSome tests need programs that are not installed. On Debian or Ubuntu:\n    sudo apt-get install%s\n\n' "$missing" >&2
    exit 0
fi
echo "Installing for the tests:$missing ..." >&2
# The tests start their own servers: nobody wants an SSH or database server on this machine for having run them.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM
fi
apt-get update -qq
# shellcheck disable=SC2086  # a list of package names
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
