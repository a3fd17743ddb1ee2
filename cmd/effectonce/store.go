package main

import (
	"context"
	"fmt"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// documents finds policy versions in the store (S3.11).
func documents(store effectonce.Store) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, version string) ([]byte, error) {
		digest, err := canon.ParseDigest(version)
		if err != nil {
			return nil, fmt.Errorf("policy version %.80q: %w", version, err)
		}
		return store.Document(ctx, digest)
	}
}
