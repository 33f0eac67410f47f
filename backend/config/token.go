package config

import (
	"context"
	"os"

	"helix/backend/fault"
)

// StoreToken replaces the gateway's root token with token. If the keyring refuses it, the old one
// is kept and the error says so.
func (r *Root) StoreToken(ctx context.Context, token string) error {
	if decodeKey(token) == nil {
		return fault.Invalidf("A root token has 64 hexadecimal characters.")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ring != nil {
		it := *r.ring
		it.GatewayToken = token
		if err := r.writeRing(ctx, it); err != nil {
			return fault.Unavailablef("Couldn't store the new token in the keyring. The previous one stays valid.").WithCause(err)
		}
		r.ring = &it
		return nil
	}
	if err := WriteFile(ctx, r.tokenFile(), []byte(token+"\n")); err != nil {
		return err
	}
	r.token = token
	if err := os.Remove(r.tokenFile() + ".bak"); err != nil && !os.IsNotExist(err) { // remove the old token
		return err
	}
	return nil
}
