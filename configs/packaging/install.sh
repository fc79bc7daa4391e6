#!/bin/sh
# Installs what `make` built, as it is, or removes it: compiles nothing and writes only below DESTDIR/PREFIX. The file
# share/tilerun/installed lists the files, and with a slash the folders that did not exist before.
#     install.sh PROGRAM DESTDIR PREFIX        install.sh --remove DESTDIR PREFIX
# A program that was linked with BUNDLE=1 gets the libraries that it loads, all but the C library's, into lib/tilerun.
set -eu
cd "$(dirname "$0")/../.."
program=$1 root=${2%/} prefix=${3%/}
# Not every shell expands the tilde in `make PREFIX=~/FOLDER`.
case $root in '' | /*) ;; \~/*) root=$HOME${root#?} ;; *) root=$PWD/$root ;; esac
case $prefix in '' | /*) ;; \~/*) prefix=$HOME${prefix#?} ;; *) prefix=$PWD/$prefix ;; esac
to=$root$prefix list=share/tilerun/installed made=''
old=$(cat "$to/$list" 2> /dev/null) || old=''
IFS='
'

# Makes a folder and those above it. The list calls PREFIX by this name, and those above it by their whole path.
folder() {
    [ ! -d "$root$1/" ] || return 0
    [ -z "$1" ] || folder "${1%/*}"
    mkdir -p "$root$1"
    chmod 755 "$root$1"
    [ "$1" = "$prefix" ] && made="${made}PREFIX/$IFS" || made="$made${1#"$prefix/"}/$IFS"
}

# Puts a file, or standard input, at a path below PREFIX.
put() {
    folder "$prefix/${2%/*}"
    install -m "$1" "${3:-/dev/stdin}" "$to/$2"
    made="$made$2$IFS"
}

# Removes the files of the old list that the new one does not have, and the folders that are empty, deepest first.
remove() {
    for path in $(printf '%s\n' "$old" | LC_ALL=C sort -r); do
        case $path in
            /*/ | /) case $prefix/ in "$path"*) rmdir "$root$path" 2> /dev/null || true ;; esac ;;
            PREFIX/) rmdir "$to/" 2> /dev/null || true ;;
            */) rmdir "$to/$path" 2> /dev/null || true ;;
            *) printf '%s' "$made" | grep -qxF -e "$path" || rm -f "$to/$path" ;;
        esac
    done
}

if [ "$program" = --remove ]; then
    remove
    # This folder is the program's own, even where it held another's file when the list was removed.
    [ ! -d "$to/share/tilerun" ] || find "$to/share/tilerun" -depth -type d -exec rmdir --ignore-fail-on-non-empty {} +
    exit
fi
[ -x "$program" ] || { echo "tilerun: $program does not exist: build it first: make" >&2; exit 2; }

put 755 bin/tilerun "$program"
put 644 share/man/man1/tilerun.1 << END
$("$program" --print-manual)
END
for shell in bash-completion/completions/tilerun zsh/site-functions/_tilerun fish/vendor_completions.d/tilerun.fish; do
    name=${shell%%/*}
    put 644 "share/$shell" << END
$("$program" --print-completion "${name%-completion}")
END
done
put 644 share/doc/tilerun/LICENSE LICENSE
put 644 share/doc/tilerun/README.md << END
$(sed 's|](\([a-z]*/\)|](../../tilerun/\1|g' README.md)
END
for file in configs/*.md configs/*.json configs/*.yaml configs/[!p]*/*.* configs/*/results/*.h5 \
    data/*.md data/digits.h5 data/*.py [krt]*/README.md configs/packaging/README.md tests/check.txt; do
    mode=644
    [ ! -x "$file" ] || mode=755
    [ ! -f "$file" ] || put $mode "share/tilerun/$file" "$file"
done
# shellcheck disable=SC2016 # the linker's word
if grep -qF '$ORIGIN/../lib/tilerun' "$program"; then
    # The decoders of filters are loaded when they are needed.
    codecs=$(PATH=$PATH:/sbin ldconfig -p | sed -n 's/.*lib\(lz4\|zstd\|blosc\)\.so\.1 (libc6,.* => //p')
    # shellcheck disable=SC2086 # several files
    for file in $codecs $(ldd "$program" $codecs | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u); do
        case ${file##*/} in
            ld-linux* | libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.*) ;;
            *) put 755 "lib/tilerun/${file##*/}" "$file" ;;
        esac
    done
fi
remove # what an earlier version had
made="$made$list$IFS$(printf '%s\n' "$old" | grep '/$' || true)"
put 644 $list << END
$(printf '%s\n' "$made" | sed '/^$/d' | sort -u)
END
echo "tilerun: installed $to/bin/tilerun; its jobs and documents are in $to/share/tilerun"
