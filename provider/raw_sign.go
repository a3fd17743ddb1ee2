package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// signedSigV4 is the contract's word for AWS Signature Version 4.
const signedSigV4 = "sigv4"

// signedScope is what an AWS signature is for.
type signedScope struct {
	Region  string `json:"region,omitempty"`
	Service string `json:"service,omitempty"`
}

// signedScopeOf reads it from the client's signature, which is thrown away: Credential=KEY/20261130/eu-west-1/ec2/aws4_request.
func signedScopeOf(h http.Header) signedScope {
	authorization := h.Get("Authorization")
	_, rest, ok := strings.Cut(authorization, "Credential=")
	if !ok || !strings.HasPrefix(authorization, "AWS4-HMAC-SHA256") {
		return signedScope{}
	}
	credential, _, _ := strings.Cut(rest, ",")
	parts := strings.Split(strings.TrimSpace(credential), "/")
	if len(parts) != 5 {
		return signedScope{}
	}
	return signedScope{Region: parts[2], Service: parts[3]}
}

// signV4 signs a request with the held credential: the body is not the one that its client signed.
func signV4(r *http.Request, body []byte, secret string, where signedScope, service string, now time.Time) error {
	parts := strings.SplitN(secret, ":", 3)
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" || !printable(secret) {
		// Its value must not get into the message.
		return errors.New("the credential is not access_key_id:secret_access_key")
	}
	credentials := aws.Credentials{AccessKeyID: parts[0], SecretAccessKey: parts[1]}
	if len(parts) == 3 {
		credentials.SessionToken = parts[2]
	}
	if service == "" {
		service = where.Service
	}
	if where.Region == "" || service == "" {
		return errors.New("the request was not signed by its client, so that its region is not known")
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256"} {
		r.Header.Del(name)
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	if service == "s3" {
		r.Header.Set("X-Amz-Content-Sha256", hash)
	}
	return v4.NewSigner().SignHTTP(context.Background(), credentials, r, hash, service, where.Region, now)
}
