#!/bin/sh
# Runs the tools of a host, read-only, and keeps what each prints, for `bridgehead discover`.
#
#   sh collector.sh -o DIR             writes DIR/HOST/...
#   ssh HOST sh -s < collector.sh > HOST.tar     writes a tar archive to standard output
#   -t SECONDS                         the longest that a tool may take (30)
#
# Nothing is changed on the host and nothing is installed. Tools that are missing, that need root, that fail or that take too long
# are noted in bridgehead-collect.txt. Files that others may not read are made.
set -u
umask 077
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH

folder='' limit=30
while getopts o:t: option; do
    case $option in
        o) folder=$OPTARG ;;
        t) limit=$OPTARG ;;
        *) echo "use: sh collector.sh [-o DIR] [-t SECONDS]" >&2; exit 2 ;;
    esac
done
case $limit in
    '' | *[!0-9]* | 0) echo "-t takes a whole number of seconds, not '$limit'" >&2; exit 2 ;;
esac

host=$(uname -n)
case $host in
    '' | *[!A-Za-z0-9.-]* | [.-]*) echo "the name of this host cannot name a folder: '$host'" >&2; exit 1 ;;
esac

scratch=''
clean() {
    if [ -n "$scratch" ]; then rm -rf "$scratch"; fi
}
trap clean EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
if [ -z "$folder" ]; then
    if [ -t 1 ]; then echo "give -o DIR, or send standard output into a file: it is a tar archive" >&2; exit 2; fi
    scratch=$(mktemp -d) || exit 1
    folder=$scratch
fi
mkdir -p "$folder/$host" || exit 1
cd "$folder/$host" || exit 1
record=bridgehead-collect.txt
{
    echo '# bridgehead collect 1'
    echo "host $host"
    echo "at $(date +%s)"
} > "$record" || exit 1

note() {
    echo "tool $*" >> "$record"
    echo "  $*" >&2
}

count=0
# bounded FILE COMMAND...: the output in FILE, complaints in .errors, the exit code in $code; 124 when it took longer than $limit seconds.
# The tool is left alone, not waited for, when even KILL does not end it: nvidia-smi can hang so in the driver.
bounded() {
    count=$((count + 1))
    file=$1
    shift
    ( sh -c 'echo $$ > "$0"; exec "$@"' ".pid.$count" "$@" < /dev/null; echo $? > ".code.$count" ) > "$file" 2> .errors &
    until=$(($(date +%s) + limit))
    while [ ! -s ".code.$count" ]; do
        sleep 0.1 2> /dev/null || sleep 1
        if [ "$(date +%s)" -ge "$until" ] && [ ! -s ".code.$count" ]; then
            tool=$(cat ".pid.$count")
            kill -TERM "$tool" 2> /dev/null
            sleep 1
            kill -KILL "$tool" 2> /dev/null
            code=124
            return
        fi
    done
    code=$(cat ".code.$count")
}

# keep FILE COMMAND...: the output of the command in FILE, and a line in the record. The name of the tool is FILE without its ending.
keep() {
    file=$1
    name=${file%.*}
    shift
    rm -f "$file" # of an earlier collection
    if ! command -v "$1" > /dev/null 2>&1; then
        note "$name" missing
        return
    fi
    bounded "$file" "$@"
    said=$(tr -cd '[:print:]\n' < .errors | sed -n '/[^ ]/{p;q;}' | cut -c 1-200)
    if [ ! -s "$file" ]; then rm -f "$file"; fi
    if [ "$code" -eq 124 ]; then
        # What came before the end may be cut in the middle of a number.
        rm -f "$file"
        note "$name" timed-out "after $limit s"
    elif [ "$code" -ne 0 ]; then
        note "$name" failed "with $code${said:+: $said}"
    else
        note "$name" ran
    fi
}

# keep_root: the same, for what only root may do.
keep_root() {
    if [ "$(id -u)" -ne 0 ] && command -v "$2" > /dev/null 2>&1; then
        rm -f "$1"
        note "${1%.*}" needs-root
    else
        keep "$@"
    fi
}

echo "collecting on $host" >&2
# One line a tool. The parsers know output by its content; the names of files are for people.
keep nvidia-smi-q.xml nvidia-smi -q -x
keep nvidia-smi-topo.txt nvidia-smi topo -m
keep nvidia-smi-topo-p2p.txt nvidia-smi topo -p2p r
keep nvidia-smi-nvlink.txt nvidia-smi nvlink --status
keep dcgmi-discovery.txt dcgmi discovery -l
keep dcgmi-nvlink.txt dcgmi nvlink -s
keep ibstat.txt ibstat
keep ibv-devinfo.txt ibv_devinfo -v
keep_root ibnetdiscover.txt ibnetdiscover
keep_root iblinkinfo.txt iblinkinfo
keep lldpctl.json lldpctl -f json
keep ip-addr.json ip -d -j addr
if command -v ethtool > /dev/null 2>&1; then
    # shellcheck disable=SC2016  # the inner shell expands it
    keep ethtool.txt sh -c 'for device in /sys/class/net/*/device; do name=${device%/device}; ethtool "${name##*/}"; done'
else
    note ethtool missing
fi
keep_root mlxfwmanager.txt mlxfwmanager --query
keep lspci.txt lspci -nn
keep_root dmidecode.txt dmidecode
keep_root ipmitool-sensor.txt ipmitool sensor
keep_root ipmitool-power.txt ipmitool dcmi power reading
keep_root ipmitool-fru.txt ipmitool fru
keep lsblk.json lsblk -J -b -O
keep mounts.txt cat /proc/mounts
keep df.txt df -P -T -B 1
keep scontrol-node.txt scontrol show node -o
keep scontrol-job.txt scontrol show job -o
keep scontrol-partition.txt scontrol show partition -o
keep scontrol-config.txt scontrol show config
keep squeue.json squeue --json
keep sinfo.json sinfo --json
keep kubectl-nodes.json kubectl get nodes -o json --request-timeout=20s
keep kubectl-pods.json kubectl get pods --all-namespaces -o json --request-timeout=20s
keep kubectl-services.json kubectl get services,deployments,statefulsets,ingresses --all-namespaces -o json --request-timeout=20s
keep dmesg.txt dmesg -T

rm -f .pid.* .code.* .errors
echo "done: $folder/$host" >&2
if [ -n "$scratch" ]; then
    cd "$scratch" || exit 1
    # The record first: whoever reads the archive knows then whose it is.
    rest=$(find "$host" -type f ! -name "$record")
    # shellcheck disable=SC2086  # the names are ours and hold no spaces
    tar -cf - "$host/$record" $rest
fi
