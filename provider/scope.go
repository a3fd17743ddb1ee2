package provider

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/effectonce/effectonce/contract"
)

// scope says where requests go (S3.10).
type scope struct {
	fixed string
	// digests says that the credential tells whose account it is.
	digests bool

	mu         sync.Mutex
	lastSecret string
	lastDigest string
}

// credentialTimeout bounds reading the credential when only the scope is asked for.
const credentialTimeout = 5 * time.Second

func newScope(o HTTPOptions, base *url.URL) *scope {
	s := &scope{fixed: "base_url=" + url.QueryEscape(base.String())}
	parts := o.Contract.Scope
	if slices.Contains(parts, contract.ScopeAPIVersion) || o.APIVersion != "" {
		s.fixed += " api_version=" + url.QueryEscape(o.APIVersion)
	}
	if o.Account != "" {
		s.fixed += " account=" + url.QueryEscape(o.Account)
	}
	// Where nobody says whose account it is, the credential stands for it: another one may open another account.
	s.digests = o.Credential != nil && (slices.Contains(parts, contract.ScopeCredential) ||
		slices.Contains(parts, contract.ScopeAccount) && o.Account == "")
	return s
}

// with is the scope under a credential.
func (s *scope) with(secret string) string {
	if !s.digests {
		return s.fixed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastDigest == "" || secret != s.lastSecret {
		s.lastSecret, s.lastDigest = secret, credentialDigest(secret)
	}
	return s.fixed + " credential=" + s.lastDigest
}

// last is the scope under the credential that was last seen.
func (s *scope) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.digests {
		return s.fixed
	}
	if s.lastDigest == "" {
		return s.fixed + " credential=unavailable"
	}
	return s.fixed + " credential=" + s.lastDigest
}

// credentialDigest tells credentials apart without giving one away: it is slow to compute, so that guessing does not pay, and
// short.
func credentialDigest(secret string) string {
	const rounds, bytes = 100_000, 6
	sum, err := pbkdf2.Key(sha256.New, secret, []byte("effectonce/credential"), rounds, bytes)
	if err != nil {
		return "unavailable"
	}
	return hex.EncodeToString(sum)
}

// Scope implements [effectonce.Provider]: base URL, API version and account; and a digest of the credential where the contract says
// that it is part of the scope, or no account is configured that would tell whose it is. While the credential cannot be read it is the scope under the last one.
func (h *HTTP) Scope() string {
	if !h.scope.digests {
		return h.scope.fixed
	}
	ctx, cancel := context.WithTimeout(context.Background(), credentialTimeout)
	defer cancel()
	secret, err := h.secret(ctx)
	if err != nil {
		return h.scope.last()
	}
	return h.scope.with(secret)
}

func (h *HTTP) secret(ctx context.Context) (string, error) {
	if h.credential == nil {
		return "", nil
	}
	secret, err := h.credential(ctx)
	if err != nil {
		return "", fmt.Errorf("the credential cannot be read: %w", err)
	}
	return strings.TrimSpace(secret), nil
}
