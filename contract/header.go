package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// reserved are headers that a client's transport or a proxy sets, changes or takes out, or that hold secrets: what is put there may never
// arrive.
var reserved = []string{
	"Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Cookie", "Expect", "Host",
	"Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
}

// ReservedHeader reports whether a header is not free for a key, a stamp, a companion or a caller's own value: the transport or Effectonce sets
// it, or it holds secrets.
func ReservedHeader(name string) bool {
	canonical := http.CanonicalHeaderKey(name)
	return slices.Contains(reserved, canonical) || strings.HasPrefix(canonical, "Effectonce-")
}

// headers calls f with each place in a header that a key, a companion or a stamp has.
func (o *Operation) headers(f func(field string, s Spot)) {
	inHeader := func(field string, s Spot) {
		if s.Place == PlaceHeader || s.Place == PlacePrecondition {
			f(field, s)
		}
	}
	for _, s := range o.Key.spots() {
		inHeader(".key.name", s)
	}
	for i, companion := range o.Key.Companions {
		inHeader(fmt.Sprintf(".key.companions[%d].name", i), companion.Spot)
	}
	inHeader(".stamp.field", o.Stamp.spot())
}

// checkHeaders refuses headers in which a key or a stamp would not arrive: a guarded resend would then be a second effect.
func (o *Operation) checkHeaders(p *problems, at string) {
	o.headers(func(field string, s Spot) {
		if ReservedHeader(s.Name) {
			p.add(at+field, fmt.Sprintf("%s is set by the transport or by effectonce, or holds secrets: it would not arrive", s.Name), "name the header that the provider reads it from")
		}
	})
}

// checkCredential refuses headers that the credential overwrites.
func (c *Contract) checkCredential(p *problems, at string, o *Operation) {
	o.headers(func(field string, s Spot) {
		if c.Credential.Header != "" && strings.EqualFold(s.Name, c.Credential.Header) {
			p.add(at+field, fmt.Sprintf("%s is the header of the credential, which would overwrite it", s.Name), "name another header")
		}
	})
}
