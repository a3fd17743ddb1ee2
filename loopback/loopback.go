// Package loopback refuses requests that came through a browser from somewhere else. As long as there are no tokens, reaching an address of
// this machine is the whole permission, and a page in a browser on this machine can reach it: by a foreign name that resolves to loopback
// (DNS rebinding), or by sending from its own site.
//
// The package is not part of the project's API promise.
package loopback

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/effectonce/effectonce"
)

// Check refuses a request that does not address this machine by a loopback name, or that a browser sent for another site. what is who is
// addressed, for people: "daemon". The error is an [effectonce.ErrForbidden] that names the header.
func Check(r *http.Request, what string) error {
	if !names(r.Host) {
		return &effectonce.Error{Code: effectonce.CodeForbidden, Field: "Host", Detail: "the host name is not a loopback one", Remedy: "address the " + what + " as 127.0.0.1 or localhost"}
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

// names reports whether a Host header names this machine to itself.
func names(host string) bool {
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
