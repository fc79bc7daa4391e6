#!/bin/bash
# Makes bare Debians by debootstrap and runs commands in them; scripts of tests/ source it. It needs root, debootstrap
# and unshare; without them the script says so and exits 77. Debian and its packages come from where this machine's apt
# is configured to get them. BARE=FOLDER keeps the bare systems there, for other scripts.

# Runs the script again in its own mount namespace, so that all mounts end with it, then with `inside` as first
# argument.
for_debians() {
    local need
    for need in debootstrap unshare; do
        [ "$(id -u)" = 0 ] && command -v $need > /dev/null && continue
        echo "$(basename "$0" .sh): SKIPPED: it needs root, debootstrap and unshare"
        exit 77
    done
    [ "${1:-}" = inside ] || exec unshare --mount --propagation private "$0" inside "$@"
    bare=$(mktemp -d)
}

release='' foreign='' with=()
own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)

# Unmounts and removes bare systems.
remove() {
    local root
    for root; do
        umount -R "$root/dev" "$root/proc" 2> /dev/null || true
        rm -rf --one-file-system "$root"
    done
}

# Prints the address that this machine's apt gets its release's packages from.
# shellcheck disable=SC2016 # apt and awk expand
mirror() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk -v r="$own" '$2 == r && !n++ {print $1}'
}

# Copies apt's sources (for the release), keys and network settings, and the trusted certificates, into the bare system.
# A mirror may lag behind, and sid has no other suites.
lend_network() {
    local root=$1 path
    for path in /etc/apt/{sources.list,sources.list.d,trusted.gpg,trusted.gpg.d,keyrings,auth.conf.d} \
        /etc/{resolv.conf,hosts,pip.conf,ssl/certs} /usr/share/{keyrings,ca-certificates} \
        /usr/local/share/ca-certificates; do
        [ ! -e "$path" ] || { mkdir -p "$root${path%/*}" && cp -rLT "$path" "$root$path"; }
    done
    apt-config dump | grep '^Acquire::' > "$root/etc/apt/apt.conf.d/99lent"
    echo 'Acquire::Check-Valid-Until "false";' >> "$root/etc/apt/apt.conf.d/99lent"
    [ -e /etc/apt/sources.list ] || rm -f "$root/etc/apt/sources.list"
    if [ "$release" = sid ]; then
        rm -rf "$root"/etc/apt/sources.list.d/*
        echo "deb $(mirror) sid main" > "$root/etc/apt/sources.list"
    else
        grep -rlZw "$own" "$root"/etc/apt/sources.list* | xargs -0r sed -i "s/\b$own\b/$release/g"
    fi
}

# Makes a bare system of `release` with only git and make added, and mounts what programs need.
make_bare() {
    local root=$1 kept=${BARE:-$bare}/kept-$release proxy=''
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    if [ ! -e "$kept/etc/apt/apt.conf.d/99lent" ]; then
        mkdir -p "${kept%/*}"
        http_proxy=${http_proxy:-$proxy} debootstrap --variant=minbase --include=git,make "$release" "$kept" \
            "$(mirror)" > "$bare/log" 2>&1 || { tail -n 20 "$bare/log"; return 1; }
        lend_network "$kept"
    fi
    cp -a "$kept" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
}

# Runs a command in the bare system, in the clone, with only those environment variables that the network needs.
within() {
    local root=$1
    shift
    mapfile -t network < <(env | grep -iE '^(https?_proxy|no_proxy|pip_[a-z_]*|ssl_cert_[a-z]*|requests_ca_bundle)=')
    chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 \
        "PATH=${foreign:+$foreign:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
        "${network[@]}" "${with[@]}" \
        sh -c 'mkdir -p /root/tilerun && cd /root/tilerun && exec "$@"' sh "$@" < /dev/null
}

# Runs a command in the bare system; shows its output only if it fails.
try() {
    local root=$1 begin=$SECONDS name="bare ${1#"$bare/at-"}"
    shift
    if within "$root" "$@" > "$bare/log" 2>&1; then
        echo "$name: ${*%%$'\n'*}: $(tail -n 1 "$bare/log") ($((SECONDS - begin)) s)"
    else
        cat "$bare/log"
        echo "$name: ${*%%$'\n'*} FAILED"
        exit 1
    fi
}
