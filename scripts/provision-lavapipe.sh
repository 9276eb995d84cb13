#!/bin/sh
# Fetches Mesa's software Vulkan driver (lavapipe) into .cache/lavapipe, where the tests find it. They run several times
# faster than on SwiftShader, and on a second, independent implementation of WGSL. For Debian 12 on x86-64; it needs no
# root and installs nothing. Dawn refuses Debian 12's own Mesa (22.3), so the package comes from bookworm-backports.
# If the driver is already there, it does nothing.
set -eu
cd "$(dirname "$0")/.."
target="$PWD/.cache/lavapipe"
[ -f "$target/icd.json" ] && exit 0
command -v apt-get >/dev/null || { echo "provision-lavapipe: needs Debian 12 (apt-get)" >&2; exit 1; }

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/root" "$work/lib"
key=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in bookworm bookworm-backports; do
  echo "deb [signed-by=$key] http://deb.debian.org/debian $suite main"
done >"$work/sources.list"
apt() {
  apt-get -q=2 -o Dir::State::Lists="$work/lists" \
    -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)" -o APT::Default-Release=bookworm "$@"
}
fetch() {
  (cd "$work/debs" && apt download "$@")
  for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/root"; rm "$deb"; done
  find "$work/root" -name '*.so*' -exec cp -Pn {} "$work/lib/" \;
}
apt update
fetch mesa-vulkan-drivers/bookworm-backports libdrm2/bookworm-backports libvulkan1

# Libraries that the driver needs and this machine lacks; a package may need further ones, hence the rounds.
for round in 1 2 3 4; do
  missing="$(LD_LIBRARY_PATH="$work/lib" ldd "$work/lib/libvulkan_lvp.so" |
    sed -n 's/^\s*\(\S*\) => not found$/\1/p' | sort -u)"
  [ -z "$missing" ] && break
  packages=
  for library in $missing; do
    case "$library" in
      libLLVM-15.so.1) package=libllvm15 ;;
      libdrm_amdgpu.so.1) package=libdrm-amdgpu1/bookworm-backports ;;
      libX11-xcb.so.1) package=libx11-xcb1 ;;
      libX11.so.6) package=libx11-6 ;;
      libXau.so.6) package=libxau6 ;;
      libXdmcp.so.6) package=libxdmcp6 ;;
      libwayland-client.so.0) package=libwayland-client0 ;;
      libxcb.so.1) package=libxcb1 ;;
      libxcb-dri3.so.0) package=libxcb-dri3-0 ;;
      libxcb-present.so.0) package=libxcb-present0 ;;
      libxcb-randr.so.0) package=libxcb-randr0 ;;
      libxcb-shm.so.0) package=libxcb-shm0 ;;
      libxcb-sync.so.1) package=libxcb-sync1 ;;
      libxcb-xfixes.so.0) package=libxcb-xfixes0 ;;
      libxshmfence.so.1) package=libxshmfence1 ;;
      libelf.so.1) package=libelf1 ;;
      libexpat.so.1) package=libexpat1 ;;
      libedit.so.2) package=libedit2 ;;
      libbsd.so.0) package=libbsd0 ;;
      libmd.so.0) package=libmd0 ;;
      libffi.so.8) package=libffi8 ;;
      libz3.so.4) package=libz3-4 ;;
      libxml2.so.2) package=libxml2 ;;
      libicuuc.so.72 | libicudata.so.72) package=libicu72 ;;
      libtinfo.so.6) package=libtinfo6 ;;
      libzstd.so.1) package=libzstd1 ;;
      libstdc++.so.6) package=libstdc++6 ;;
      *) echo "provision-lavapipe: do not know the package of $library" >&2; exit 1 ;;
    esac
    case " $packages " in *" $package "*) ;; *) packages="$packages $package" ;; esac
  done
  # shellcheck disable=SC2086 # a list of words
  fetch $packages
done

rm -rf "$target"
mkdir -p "$target/lib"
rm -f "$work"/lib/libvulkan_[!l]* "$work"/lib/libVkLayer*
cp -P "$work"/lib/*.so* "$target/lib/"
printf '{"file_format_version":"1.0.0","ICD":{"library_path":"%s","api_version":"1.4.305"}}\n' \
  "$target/lib/libvulkan_lvp.so" >"$target/icd.json"
echo "lavapipe: $(du -sh "$target" | cut -f1) in .cache/lavapipe"
