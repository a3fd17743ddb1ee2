package events

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// This file checks and makes signatures. All comparisons take the same time wherever two signatures differ.

// errUnsigned is the one answer to a delivery whose signature does not hold. It says nothing of the secret, nor which part is wrong.
var errUnsigned = errors.New("the signature is missing, does not fit the body, or is too old")

// signaturesMax bounds how many signatures of one delivery are compared.
const signaturesMax = 16

// verify checks a delivery. The error is errUnsigned, or says that no secret could be read.
func (s Source) verify(ctx context.Context, header http.Header, body []byte, now time.Time) error {
	if s.Verify == VerifyNone {
		return nil
	}
	var unread error
	for _, read := range s.Secrets {
		secret, err := read(ctx)
		if err != nil {
			unread = err
			continue
		}
		ok, err := s.signedWith(secret, header, body, now)
		if err != nil {
			unread = err
		}
		if ok {
			return nil
		}
	}
	if unread != nil {
		// One of the secrets might have fitted: the sender shall come again.
		return fmt.Errorf("a secret of source %s cannot be used: %w", s.Name, unread)
	}
	return errUnsigned
}

func (s Source) signedWith(secret string, header http.Header, body []byte, now time.Time) (bool, error) {
	switch s.Verify {
	case VerifyStripe:
		return signedByStripe(secret, header.Get("Stripe-Signature"), body, now, s.Tolerance), nil
	case VerifyGitHub:
		return signedInHeader(secret, header, "X-Hub-Signature-256", "hex", "sha256=", body), nil
	case VerifyHMAC:
		return signedInHeader(secret, header, s.Header, s.Encoding, s.Prefix, body), nil
	case VerifyStandardWebhooks:
		key, err := signingKey(secret)
		if err != nil {
			return false, err
		}
		return signedAsStandard(key, header, body, now, s.Tolerance), nil
	}
	return false, fmt.Errorf("no way to verify %q", s.Verify)
}

// signedByStripe checks t=...,v1=...: the HMAC is over "t.body", and there may be several v1 while Stripe rolls a secret.
func signedByStripe(secret, signature string, body []byte, now time.Time, tolerance time.Duration) bool {
	stamp := ""
	var given []string
	for _, item := range strings.Split(signature, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		switch name {
		case "t":
			if stamp != "" {
				return false
			}
			stamp = value
		case "v1":
			given = append(given, value)
		}
	}
	if !recent(stamp, now, tolerance) {
		return false
	}
	want := sum([]byte(secret), []byte(stamp+"."), body)
	return anyOf(given, want, hex.DecodeString)
}

// signedInHeader checks the HMAC of the body in one header.
func signedInHeader(secret string, header http.Header, name, encoding, prefix string, body []byte) bool {
	values := header.Values(name)
	if len(values) != 1 {
		return false
	}
	value, ok := strings.CutPrefix(values[0], prefix)
	if !ok {
		return false
	}
	decode := hex.DecodeString
	if encoding == "base64" {
		decode = base64.StdEncoding.DecodeString
	}
	return anyOf([]string{value}, sum([]byte(secret), body), decode)
}

// The headers of Standard Webhooks.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// signedAsStandard checks a list of "v1,BASE64": the HMAC is over "id.timestamp.body".
func signedAsStandard(key []byte, header http.Header, body []byte, now time.Time, tolerance time.Duration) bool {
	id, stamp := header.Get(headerID), header.Get(headerTimestamp)
	if id == "" || !recent(stamp, now, tolerance) {
		return false
	}
	var given []string
	for _, item := range strings.Fields(header.Get(headerSignature)) {
		if value, ok := strings.CutPrefix(item, "v1,"); ok {
			given = append(given, value)
		}
	}
	return anyOf(given, sum(key, []byte(id+"."+stamp+"."), body), base64.StdEncoding.DecodeString)
}

// webhookID is the id of a message or event in webhook-id. A dot is written as %2E: in the signed text "id.timestamp.body" an id with dots
// could be read as another id with another time.
func webhookID(id string) string { return escape(id, ".\t") }

// signStandard sets the headers of a signed delivery.
func signStandard(header http.Header, secret, id string, body []byte, now time.Time) error {
	key, err := signingKey(secret)
	if err != nil {
		return err
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	header.Set(headerID, id)
	header.Set(headerTimestamp, stamp)
	header.Set(headerSignature, "v1,"+base64.StdEncoding.EncodeToString(sum(key, []byte(id+"."+stamp+"."), body)))
	return nil
}

// signingKey is the key of a Standard Webhooks secret: base64 behind whsec_.
func signingKey(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return nil, errors.New("a secret of Standard Webhooks is whsec_ and base64")
	}
	return key, nil
}

// recent reports whether a Unix time in seconds is not further from now than tolerance.
func recent(stamp string, now time.Time, tolerance time.Duration) bool {
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return false
	}
	return now.Sub(time.Unix(n, 0)).Abs() <= tolerance
}

func sum(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

func anyOf(given []string, want []byte, decode func(string) ([]byte, error)) bool {
	for _, g := range given[:min(len(given), signaturesMax)] {
		if b, err := decode(g); err == nil && hmac.Equal(b, want) {
			return true
		}
	}
	return false
}
