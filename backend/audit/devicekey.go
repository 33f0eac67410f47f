package audit

import (
	"context"
	"encoding/hex"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// DeviceKeyResult is the key that signs this device's part of the log.
type DeviceKeyResult struct {
	DeviceID  uuid.UUID `json:"deviceId"`
	PublicKey string    `json:"publicKey"` // Ed25519, 64 hexadecimal characters
}

// DeviceKey returns this device's public key. With this key, obtained independently of the exported
// log, an export can be verified without Helix's data.
func (s *Service) DeviceKey(context.Context, struct{}) (DeviceKeyResult, error) {
	d := s.db.Device()
	if d.ID == uuid.Nil {
		return DeviceKeyResult{}, fault.Unavailablef("This installation has no device key yet. It is created when the encryption key is available.")
	}
	return DeviceKeyResult{DeviceID: d.ID, PublicKey: hex.EncodeToString(d.PublicKey)}, nil
}
