package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/effectonce/effectonce"
)

// local refuses requests that came through a browser from somewhere else. As long as there are no tokens, reaching the address
// is the whole permission, and a page in a browser on this machine can reach it: by a foreign name that resolves to loopback
// (DNS rebinding), or by sending from its own site.
func local(r *http.Request) error {
	if !loopback(r.Host) {
		return &effectonce.Error{Code: effectonce.CodeForbidden, Field: "Host", Detail: "the host name is not a loopback one", Remedy: "address the daemon as 127.0.0.1 or localhost"}
	}
	foreign := &effectonce.Error{Code: effectonce.CodeForbidden, Field: "Origin", Detail: "a browser sent this for another site", Remedy: "send it from a program on this machine"}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) {
			return foreign
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return nil
	}
	foreign.Field = "Sec-Fetch-Site"
	return foreign
}

// loopback reports whether a Host header names this machine to itself.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
