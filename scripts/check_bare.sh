#!/usr/bin/env bash
# scripts/check_bare.sh bookworm|trixie [FLAGS OF ctest]: makes a bare Debian of that release in a
# temporary folder and runs this commit's two commands in it as a new user would: test.sh and train.sh
# as root, without sudo and with nothing installed, then train.sh as a user with sudo and one package
# missing. Needs root, a Debian mirror (the one that apt here uses) and 4 GB below ${TMPDIR:-/var/tmp}.
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

bare=$(mktemp -d "${TMPDIR:-/var/tmp}/heddle-bare-$suite.XXXXXX")
chmod 755 "$bare" # users live in it
clean_up() {
  cut -d ' ' -f 2 /proc/mounts | grep -F "$bare/" | sort -r | while read -r place; do
    umount "$place" || umount --lazy "$place"
  done
  if grep -qF " $bare/" /proc/mounts; then
    echo "check_bare.sh: $bare still has mounts and is left there" >&2
  else
    rm -rf --one-file-system "$bare"
  fi
}
trap clean_up EXIT
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

make_system() {
  debootstrap --variant=minbase "$suite" "$bare" "$mirror" >"$bare.log" 2>&1 ||
    { cat "$bare.log"; rm -f "$bare.log"; return 1; }
  rm -f "$bare.log"
  apt-config dump | grep -E '^Acquire::(https?|Check-|Retries|ForceIPv)' >"$bare/etc/apt/apt.conf.d/90machine" || true
  mkdir -p "$bare/etc/ssl/certs"
  if [[ $mirror == https:* ]]; then
    cp /etc/ssl/certs/ca-certificates.crt "$bare/etc/ssl/certs/"
  fi
  mount -t proc proc "$bare/proc"
  mount --rbind /dev "$bare/dev"
  mount --make-rslave "$bare/dev"
}

share_ccache() { # compiles only once what root and user build, and what an earlier check built
  if ! command -v ccache >/dev/null; then return; fi
  in_bare root apt-get -qq update
  in_bare root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends ccache >/dev/null 2>&1
  local cache
  cache=$(ccache --get-config cache_dir)
  mkdir -p "$cache" "$bare/var/cache/ccache"
  mount --bind "$cache" "$bare/var/cache/ccache"
}

copy_clone() { # USER PLACE
  git -c safe.directory='*' clone -q --no-hardlinks "$root" "$bare$2"
  git -C "$bare$2" -c safe.directory='*' checkout -q --detach "$(git -c safe.directory='*' -C "$root" rev-parse HEAD)"
  chroot "$bare" chown -R "$1:" "$2"
}

add_user() {
  in_bare root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends sudo >/dev/null 2>&1
  chroot "$bare" useradd --create-home --base-dir /srv --shell /bin/bash weaver
  echo 'weaver ALL=(ALL) NOPASSWD: ALL' >"$bare/etc/sudoers.d/weaver"
  in_bare root apt-get -qq -y remove libcli11-dev >/dev/null 2>&1
  copy_clone weaver "/srv/weaver/a clone"
}

run_command() { # USER CLONE SCRIPT FLAGS...
  local user=$1 clone=$2
  shift 2
  in_bare "$user" CCACHE_BASEDIR="$clone" bash -c 'cd "$0/apps" && exec "$@"' "$clone" "../scripts/$@"
}

train_flags=(--epochs 1 --limit 256 --workers 1)
root_clone="/srv/heddle"
step "bare system" make_system
if [ $failures -ne 0 ]; then exit 1; fi
step "shared ccache" share_ccache
step "clone" copy_clone root "$root_clone"
step "root: test.sh" run_command root "$root_clone" test.sh "$@"
step "root: train.sh" run_command root "$root_clone" train.sh "${train_flags[@]}" --out "run of root"
step "a user with sudo" add_user
step "user: train.sh" run_command weaver "/srv/weaver/a clone" train.sh "${train_flags[@]}" --out "run of user"
step "user: train.sh again" run_command weaver "/srv/weaver/a clone" train.sh --version

exit $((failures > 0))
