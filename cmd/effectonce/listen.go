package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/effectonce/effectonce"
)

// listenLoopback listens on a loopback address only: there is no access control yet, so whoever reaches the port may do everything.
func listenLoopback(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, invalid("listen", fmt.Sprintf("%q is not an address", address), "give host and port, like 127.0.0.1:7171")
	}
	if !loopback(ctx, host) {
		return nil, invalid("listen", fmt.Sprintf("%q is not a loopback address, and whoever reaches the port may do everything", address),
			fmt.Sprintf("listen on 127.0.0.1:%s, and let others in through something that authenticates them, like ssh -L %s:127.0.0.1:%s", port, port, port))
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &lineError{code: exitUnavailable, name: "port_in_use", detail: address + " is in use by another program",
			remedy: "is it running already? stop it, or choose another with --listen 127.0.0.1:0"}
	case err != nil:
		return nil, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "listen", Detail: "cannot listen on " + address, Cause: err,
			Remedy: "choose another address with --listen"}
	}
	return l, nil
}

// loopback reports whether every address of host is a loopback address; an empty host stands for all addresses.
func loopback(ctx context.Context, host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	if host != "localhost" {
		return false
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil || len(ips) == 0 {
		return false
	}
	for _, ip := range ips {
		if !ip.IP.IsLoopback() {
			return false
		}
	}
	return true
}

// untilEOF returns a context that ends when in ends, for a process that must not outlive the one that started it.
func untilEOF(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		// Whatever comes is thrown away; an error is an end too.
		_, _ = io.Copy(io.Discard, in)
	}()
	return ctx, cancel
}
