#!/bin/bash
# A program that takes the calls of `docker` which worldgrad makes, for tests: a container is a folder in `state` beside
# this file, and `exec` is a sandbox that has the folder as its root. All calls are written to `state/calls`.
state=${0%/*}/state
call=$*
printf '%s\n' "${call//$'\n'/ }" >>"$state/calls"
verb=$1
shift
case $verb in
  version)
    [ ! -e "$state/broken" ] || { echo "Cannot connect to the daemon" >&2; exit 1; }
    ;;
  image) [ -e "$state/image-${2#*:}" ] ;;
  build)
    context=${!#}
    [ ! -e "$context/broken" ] || { echo "step 2 failed" >&2; exit 1; }
    while [ "$1" != --tag ]; do shift; done
    touch "$state/image-${2#*:}"
    ;;
  run)
    while [ "$1" != --name ]; do shift; done
    mkdir -p "$state/$2/tmp"
    for name in bin lib lib64; do ln -s "usr/$name" "$state/$2/$name"; done
    ;;
  exec)
    directory=/
    while [ "${1#-}" != "$1" ]; do
      case $1 in
        -i) shift ;;
        --user) shift 2 ;;
        --workdir) directory=$2; shift 2 ;;
        --env) export "${2?}"; shift 2 ;;
      esac
    done
    root=$state/$1
    [ -d "$root" ] || { echo "no such container" >&2; exit 1; }
    shift
    exec bwrap --unshare-all --die-with-parent --bind "$root" / --ro-bind /usr /usr --proc /proc --dev /dev \
      --chdir "$directory" "$@"
    ;;
  cp)
    if [ "$1" = - ]; then exec tar x -C "$state/${2%%:*}${2#*:}"; fi
    file=$state/${1%%:*}${1#*:}
    exec tar c -C "${file%/*}" "${file##*/}"
    ;;
  kill)
    # What still runs inside may write there.
    for _ in 1 2 3 4 5; do
      rm -rf "${state:?}/$1" && break
      sleep 0.3
    done
    ;;
esac
