#!/bin/sh
# SPDX-License-Identifier: MIT
# test_install.sh SOURCE-ROOT: installs weft into a temporary prefix, and builds and runs programs against that by
# pkg-config alone, as C11, C17 and C++17, with the shared library and with the static one. Checks which names both
# bring, and that DESTDIR is honoured.
set -eu
root=$1
here=$root/tests/install
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
unset DESTDIR
: "${CC:=cc}" "${CXX:=c++}"

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

prefix=$tmp/prefix
meson setup "$tmp/build" "$root" --prefix="$prefix" --libdir=lib -Dexamples=false -Dtests=false
meson install -C "$tmp/build"

# The package found is this one, not another that the machine may have.
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
[ "$(pkg-config --variable=prefix weft)" = "$prefix" ] || fail "pkg-config finds another weft"
version=$(pkg-config --modversion weft)
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror"

# Builds and runs one program. It prints the version that it was compiled with, and that it runs with.
use() {
	name=$1
	shift
	echo "$name: $*"
	"$@" || fail "$name does not build"
	said=$("$tmp/program") || fail "$name ends with status $?"
	[ "$said" = "$version $version" ] || fail "$name says '$said', not '$version $version'"
}

# Words are meant to split into options.
# shellcheck disable=SC2046,SC2086
for how in shared static; do
	libs=$(pkg-config --libs weft)
	if [ $how = static ]; then
		# `pkg-config --static` would ask for static libraries of all that libfabric was built with, which
		# distributions do not install with it; so libfabric itself stays shared.
		libs="-Wl,-Bstatic $libs -Wl,-Bdynamic $(pkg-config --libs libfabric)"
	else
		libs="$libs -Wl,-rpath,$prefix/lib"
	fi
	for std in c11 c17; do
		use "$std, $how" "$CC" -std=$std $warnings $(pkg-config --cflags weft) -o "$tmp/program" \
			"$here/consumer.c" $libs
	done
	use "c++17, $how" "$CXX" -std=c++17 $warnings $(pkg-config --cflags weft) -o "$tmp/program" \
		"$here/consumer.cc" $libs
	if readelf -d "$tmp/program" | grep -q 'NEEDED.*libweft'; then
		linked=shared
	else
		linked=static
	fi
	[ $how = $linked ] || fail "the $how program is linked $linked"
done
readelf -d "$prefix/lib/libweft.so" | grep -q 'SONAME.*\[libweft\.so\.[0-9]*\]' || fail "libweft.so has no soname"

# The programs in the README and in weft(7) build as they stand there, with the headers that are installed, and do what
# is said of them with the command that is installed.
# shellcheck disable=SC2016 # the backticks are the text's
sed -n '/^```c$/,/^```$/p' "$root/README.md" | sed '/^```/d' >"$tmp/README.c"
sed -n '/^\.SH EXAMPLES/,/^\.SH SEE/{/^#include/,/^\.EE/p}' "$prefix/share/man/man7/weft.7" |
	sed '/^\.EE/d; s/\\-/-/g; s/\\e/\\/g' >"$tmp/weft.7.c"
mkfifo "$tmp/address"
"$prefix/bin/weft" serve --provider tcp >"$tmp/address" 2>"$tmp/serve" &
server=$!
trap 'kill "$server" 2>/dev/null || :; rm -rf "$tmp"' EXIT
read -r address <"$tmp/address" || fail "weft serve: $(cat "$tmp/serve")"
for name in README weft.7; do
	# shellcheck disable=SC2046,SC2086 # words are meant to split into options
	"$CC" $warnings $(pkg-config --cflags weft) -o "$tmp/program" "$tmp/$name.c" $(pkg-config --libs weft) \
		"-Wl,-rpath,$prefix/lib" || fail "the program in $name does not build"
	status=0
	"$tmp/program" || status=$?
	[ "$status" = 2 ] || fail "the program in $name ends with $status without an address"
	said=$("$tmp/program" "$address") || fail "the program in $name ends with status $?"
	[ "$said" = olleh ] || fail "the program in $name says '$said'"
done
kill "$server"
wait "$server" || fail "weft serve ends with status $?"

# A defined name is NAME@@VERSION; the version itself is listed too, as an absolute one (A).
nm -D --defined-only "$prefix/lib/libweft.so" | awk '$2 != "A" { print $3 }' >"$tmp/names"
[ -s "$tmp/names" ] || fail "libweft.so exports nothing"
if grep -v '^weft_[a-z]' "$tmp/names"; then
	fail "libweft.so exports these names"
fi
if grep -v '@@WEFT_0\.1$' "$tmp/names"; then
	fail "these names of libweft.so have no version, or another one"
fi
if nm -g --defined-only "$prefix/lib/libweft.a" | awk 'NF == 3 { print $3 }' | grep -v '^weft_'; then
	fail "libweft.a brings these names into the programs of others"
fi

# A package is made by DESTDIR: the same files, all of them below it.
DESTDIR=$tmp/destdir meson install -C "$tmp/build" --no-rebuild
(cd "$prefix" && find . | sort) >"$tmp/direct"
(cd "$tmp/destdir$prefix" && find . | sort) >"$tmp/staged"
diff -u "$tmp/direct" "$tmp/staged" || fail "DESTDIR brings other files"
for file in include/weft/net.h include/weft/weft.h include/weft/version.h lib/libweft.a lib/libweft.so \
	lib/pkgconfig/weft.pc share/man/man3/weft_net_send.3 share/man/man7/weft.7 bin/weft \
	share/bash-completion/completions/weft; do
	[ -f "$prefix/$file" ] || fail "$file is not installed"
done
for page in weft weft-serve weft-send weft-ping weft-info; do
	! command -v scdoc >/dev/null || [ -f "$prefix/share/man/man1/$page.1" ] || fail "$page.1 is not installed"
done
# A program of layer 2 needs no more than what lies there.
staged=$tmp/destdir$prefix
flags=$(PKG_CONFIG_PATH="$staged/lib/pkgconfig:$PKG_CONFIG_PATH" \
	pkg-config --define-variable=prefix="$staged" --cflags --libs weft)
case $flags in
*"-I$staged/include"*) ;;
*) fail "below DESTDIR, pkg-config says: $flags" ;;
esac
# shellcheck disable=SC2086 # words are meant to split into options
"$CC" $warnings -o "$tmp/program" "$tmp/README.c" $flags || fail "the program in README does not build with DESTDIR"
# The command finds its library by itself.
said=$(env -u LD_LIBRARY_PATH "$prefix/bin/weft" --version) || fail "weft --version ends with status $?"
[ "${said%%
*}" = "weft $version" ] || fail "weft --version says '$said'"
echo "all passed"
