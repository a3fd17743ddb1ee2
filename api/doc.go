// Package api is the HTTP surface (S14.2): it turns requests into intents for the guard, and outcomes into answers, so that
// an agent in any language can use Effectonce. It decides nothing about operations itself.
//
// The handler serves loopback callers only for now: there are no tokens yet (S15.1), so it refuses requests for foreign host
// names and requests that a browser sends for another site. Listening and server timeouts belong to the daemon.
//
// Every refusal is a problem document (RFC 9457) whose code, status and advice come from [effectonce.Registry]; input that is
// not valid is named with field and remedy, and nothing is stored for it. The OpenAPI 3.1 document is made from the same types
// that read and write the bodies.
//
// The package's API is unstable; the HTTP API and its field names are not.
package api
