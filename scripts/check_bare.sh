#!/usr/bin/env bash
# scripts/check_bare.sh bookworm|trixie [FLAGS OF ctest]: makes bare Debian systems of that release in
# a temporary folder and runs this commit's two commands, train.sh and test.sh, in them as new users
# would, each in a system where nothing is installed: root, who has no sudo, and a user who has. The
# user runs the tests that the flags choose, without those labelled slow, root those of files and the
# build, which depend on who runs them. Needs root, a Debian mirror (the one that apt here uses) and 5 GB
# below ${TMPDIR:-/var/tmp}.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

case "${1:-}" in
  bookworm | trixie) suite=$1 ;;
  *) echo "usage: scripts/check_bare.sh bookworm|trixie [FLAGS OF ctest]" >&2; exit 2 ;;
esac
shift
if [ "$(id -u)" -ne 0 ]; then
  echo "check_bare.sh: needs root, for chroot and mount" >&2
  exit 2
fi
if ! command -v debootstrap >/dev/null; then
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends debootstrap >/dev/null
fi

# The mirror, the proxy and certificate settings that apt has on this machine.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' |
  awk '$2 == "main" && $1 !~ /security/ { print $1; exit }')
if [ -z "$mirror" ]; then
  echo "check_bare.sh: apt here names no mirror" >&2
  exit 1
fi

work=$(mktemp -d "${TMPDIR:-/var/tmp}/heddle-bare-$suite.XXXXXX")
chmod 755 "$work" # users live in it
clean_up() { # FOLDER in $work, or all of it
  awk -v below="$1/" 'index($2, below) == 1 { print $2 }' /proc/mounts | sort -r | while read -r place; do
    umount "$place" || umount --lazy "$place"
  done
  if grep -qF " $1/" /proc/mounts; then
    echo "check_bare.sh: $1 still has mounts and is left there" >&2
  else
    rm -rf --one-file-system "$1"
  fi
}
trap 'clean_up "$work"' EXIT
trap 'exit 130' INT TERM

in_bare() { # USER COMMAND...: in a new user's environment
  local user=$1 home=/root
  shift
  if [ "$user" != root ]; then home=$(chroot "$bare" sh -c "echo ~$user"); fi
  chroot --userspec="$user" "$bare" env -i HOME="$home" USER="$user" LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${passed_on[@]}" "$@" </dev/null
}
passed_on=()
for variable in http_proxy https_proxy no_proxy; do
  if [ -n "${!variable:-}" ]; then passed_on+=("$variable=${!variable}"); fi
done

passed_on+=(CCACHE_DIR=/var/cache/ccache CCACHE_NOHASHDIR=1 CCACHE_UMASK=000)

failures=0
step() { # TITLE COMMAND...; each stops at its first failure
  local title=$1 begin=$SECONDS
  shift
  set +e
  (set -e; "$@")
  local status=$?
  set -e
  if [ $status -eq 0 ]; then
    echo "bare $suite: $title: good, $((SECONDS - begin)) s"
  else
    echo "bare $suite: $title: FAILED, $((SECONDS - begin)) s"
    failures=$((failures + 1))
  fi
}

debootstrap_system() {
  debootstrap --variant=minbase "$suite" "$work/new" "$mirror" >"$work/log" 2>&1 ||
    { cat "$work/log"; return 1; }
  apt-config dump | grep -E '^Acquire::(https?|Check-|Retries|ForceIPv)' >"$work/new/etc/apt/apt.conf.d/90machine" || true
  mkdir -p "$work/new/etc/ssl/certs"
  if [[ $mirror == https:* ]]; then
    cp /etc/ssl/certs/ca-certificates.crt "$work/new/etc/ssl/certs/"
  fi
}

make_system() {
  cp -a "$work/new" "$bare"
  mount -t proc proc "$bare/proc"
  mount --rbind /dev "$bare/dev"
  mount --make-rslave "$bare/dev"
}

install() {
  in_bare root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends "$@" >/dev/null 2>&1
}

# What one has compiled, the other and the next check need not. A cache of its own, since the user
# writes to it too, which the folders that this machine's builds make in theirs do not allow.
share_ccache() {
  if ! command -v ccache >/dev/null; then return; fi
  in_bare root apt-get -qq update
  install ccache
  local cache
  cache=$(ccache --get-config cache_dir)/bare
  mkdir -p "$cache" "$bare/var/cache/ccache"
  chmod 777 "$cache"
  mount --bind "$cache" "$bare/var/cache/ccache"
}

add_user() {
  in_bare root apt-get -qq update
  install sudo
  chroot "$bare" useradd --create-home --base-dir /srv --shell /bin/bash weaver
  echo 'weaver ALL=(ALL) NOPASSWD: ALL' >"$bare/etc/sudoers.d/weaver"
}

copy_clone() { # USER PLACE
  git -c safe.directory='*' clone -q --no-hardlinks "$root" "$bare$2"
  git -C "$bare$2" -c safe.directory='*' checkout -q --detach "$(git -c safe.directory='*' -C "$root" rev-parse HEAD)"
  chroot "$bare" chown -R "$1:" "$2"
}

run_command() { # USER CLONE SCRIPT FLAGS...
  local user=$1 clone=$2
  shift 2
  in_bare "$user" CCACHE_BASEDIR="$clone" bash -c 'cd "$0/apps" && exec "$@"' "$clone" "../scripts/$@"
}

two_commands() { # USER FLAGS OF CTEST...
  local user=$1 clone=/srv/heddle # the same for all: what one has compiled, ccache gives to the next
  shift
  bare=$work/$user
  step "$user: bare system" make_system
  step "$user: shared ccache" share_ccache
  if [ "$user" != root ]; then step "$user: sudo" add_user; fi
  step "$user: clone" copy_clone "$user" "$clone"
  step "$user: train.sh" run_command "$user" "$clone" train.sh --epochs 1 --limit 256 --workers 1 --out "a run"
  step "$user: test.sh" run_command "$user" "$clone" test.sh "$@"
  step "$user: train.sh again" run_command "$user" "$clone" train.sh --version
  if [ "$user" != root ]; then
    clone="/srv/$user/a clone"
    step "$user: clone in a folder with a space" copy_clone "$user" "$clone"
    step "$user: train.sh there" run_command "$user" "$clone" train.sh --version
  fi
  clean_up "$bare"
}

step "debootstrap" debootstrap_system
if [ $failures -ne 0 ]; then exit 1; fi
two_commands root -LE slow "$@" -R '^build:|file|folder'
two_commands weaver -LE slow "$@"

exit $((failures > 0))
