#!/usr/bin/env bash
# usage: scripts/dev/bare_machine.sh [--keep] [--beside FOLDER] TREE COMMAND
#
# Runs COMMAND, a bash command line, as on a newcomer's machine: as root of a bare Debian 12 in the folder TREE, in a
# fresh clone of this repository's last commit. For example:
#   scripts/dev/bare_machine.sh /tmp/bare 'scripts/quickstart.sh && scripts/test.sh'
# If TREE does not exist, debootstrap creates it (minbase and ca-certificates, 300 MB, one minute) with this machine's
# package mirror and apt, pip and proxy settings. Mounts exist only in COMMAND's namespace and end with it, so TREE
# can be removed like any folder. With wheels and builds it grows to about 9 GB.
#   --keep            continues in the clone of an earlier call, if there is one
#   --beside FOLDER   mounts FOLDER read-only next to the clone
# The exit status is COMMAND's, or 69 if this machine cannot create such a tree, which requires root, Debian 12 and
# permission to mount.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

keep=no beside=
while [[ ${1-} == -* ]]; do
  case $1 in
    --keep) keep=yes ;;
    --beside)
      beside=$(realpath "${2-}") || die "--beside needs a folder"
      shift
      ;;
    -h | --help) usage 0 ;;
    *) bad_argument "$1" ;;
  esac
  shift
done
[[ $# == 2 ]] || usage 64 >&2
tree=$(realpath -m "$1")
command=$2

unable() {
  printf 'ERROR %s: no bare machine: %s\n' "$(basename "$0")" "$*" >&2
  exit 69
}

make_tree() {
  local mirror
  say "making a bare Debian 12 in $tree"
  grep -q '^VERSION_CODENAME=bookworm' /etc/os-release || unable "this is not Debian 12"
  if ! command -v debootstrap >/dev/null; then
    { apt-get update -q && apt-get install -q -y --no-install-recommends debootstrap; } >/dev/null ||
      unable "apt-get did not install debootstrap"
  fi
  mirror=$(apt-get indextargets --format "\$(SITE)" 'Created-By: Packages' | head -n 1)
  mkdir -p "$tree"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$tree" "$mirror" \
    >"$tree.debootstrap.log" 2>&1 ||
    unable "$(grep '^E:' "$tree.debootstrap.log" | tail -n 1); see $tree.debootstrap.log"
}

copy_settings() {
  apt-config dump | grep -iE '^Acquire::(https?::|ftp::|Check-|Retries|Languages)' \
    >"$tree/etc/apt/apt.conf.d/99outside" || true
  cp /etc/resolv.conf /etc/hosts "$tree/etc/"
  cp -r /usr/local/share/ca-certificates/. "$tree/usr/local/share/ca-certificates/"
  cp /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/"
  if [[ -f /etc/pip.conf ]]; then cp /etc/pip.conf "$tree/etc/"; fi
}

[[ $(id -u) == 0 ]] || unable "this takes root"
unshare --mount true 2>/dev/null || unable "nothing can be mounted here"
# debootstrap removes its own folder when it has finished.
[[ -e $tree/etc/debian_version && ! -e $tree/debootstrap ]] || make_tree
copy_settings
if [[ $keep == no || ! -e $tree/srv/train_gpt ]]; then
  rm -rf --one-file-system "$tree/srv/train_gpt"
  git clone -q . "$tree/srv/train_gpt"
fi

# Passes only these variables of this machine's environment.
mapfile -t settings < <(env | grep -iE '^((http|https|all|no)_proxy|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT)|CI)=')
settings+=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
  SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt)
# shellcheck disable=SC2016
exec unshare --mount bash -euc '
  tree=$1 beside=$2
  shift 2
  mount --bind "$tree" "$tree" # a root must be a mount
  mount -t proc proc "$tree/proc"
  mount -t sysfs sys "$tree/sys"
  mount --rbind /dev "$tree/dev"
  if [[ -n $beside ]]; then
    inside=$tree/srv/$(basename "$beside")
    mkdir -p "$inside"
    mount --bind "$beside" "$inside"
    mount -o remount,bind,ro "$inside"
  fi
  # pivot_root, not chroot: in a chroot, user namespaces do not work, and tests need them.
  cd "$tree"
  pivot_root . mnt
  umount --lazy /mnt
  exec env -i "$@"
' bare "$tree" "$beside" "${settings[@]}" bash -c "cd /srv/train_gpt && $command"
