package cloudsync

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/storage"
)

// recoveryCode is a code for a person to write down. It holds the address of the hub, and a secret
// from which a role, its password and the key that decrypts the user's keys are derived.
type recoveryCode struct {
	host     string
	port     int
	database string
	secret   []byte
}

const (
	recoveryForm = 1 // the first byte of a code
	sumSize      = 4
)

// crockford is Crockford's base32, which avoids letters that look like digits.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// String formats the code in groups of four characters. It ends with a checksum, so that typing
// errors are found before the hub is contacted.
func (r recoveryCode) String() string {
	b := append([]byte{recoveryForm}, r.secret...)
	b = binary.BigEndian.AppendUint16(b, uint16(r.port)) //nolint:gosec // a port fits in 16 bits
	b = append(append(append(b, r.host...), 0), r.database...)
	sum := sha256.Sum256(b)
	var out strings.Builder
	for group := range slices.Chunk([]byte(crockford.EncodeToString(append(b, sum[:sumSize]...))), 4) {
		if out.Len() > 0 {
			out.WriteByte('-')
		}
		out.Write(group)
	}
	return out.String()
}

func readRecoveryCode(text string) (r recoveryCode, ok bool) {
	text = strings.NewReplacer("-", "", " ", "", "\n", "", "O", "0", "I", "1", "L", "1").Replace(strings.ToUpper(text))
	b, err := crockford.DecodeString(text)
	const head = 1 + secretSize + 2
	if err != nil || len(b) < head+sumSize || b[0] != recoveryForm {
		return r, false
	}
	b, sum := b[:len(b)-sumSize], b[len(b)-sumSize:]
	if want := sha256.Sum256(b); !bytes.Equal(sum, want[:sumSize]) {
		return r, false
	}
	host, database, ok := bytes.Cut(b[head:], []byte{0})
	return recoveryCode{host: string(host), port: int(binary.BigEndian.Uint16(b[1+secretSize:])), database: string(database), secret: b[1 : 1+secretSize]}, ok && len(host) > 0
}

// derivedCode holds what is derived from the secret of a code: a role with its password, a private
// key, and the key that authenticates the user's keys stored with the code.
type derivedCode struct {
	role, password string
	private        *ecdh.PrivateKey
	signer         []byte
}

func (r recoveryCode) derive() (d derivedCode, err error) {
	var parts [4][]byte
	for i, what := range []string{"role", "password", "box", "proof"} {
		if parts[i], err = hkdf.Key(sha256.New, r.secret, nil, "helix sync recovery "+what, userKeySize); err != nil {
			return d, err
		}
	}
	d.role, d.password, d.signer = "r_"+hex.EncodeToString(parts[0][:6]), crockford.EncodeToString(parts[1]), parts[3]
	d.private, err = ecdh.X25519().NewPrivateKey(parts[2])
	return d, err
}

// RecoveryResult holds a recovery code. It is not stored, so it can be shown only once.
type RecoveryResult struct {
	Code string `json:"code"`
}

// ExportRecovery creates a recovery code, with which a device can join when no other device is
// left. It replaces the previous code.
func (s *Service) ExportRecovery(ctx context.Context, _ struct{}) (r RecoveryResult, err error) {
	err = s.exclusive(ctx, func() error {
		c, l, err := s.open(ctx)
		if err != nil {
			return err
		}
		if l.greeting.KeyVersion > l.keyVersion {
			return fault.Conflictf("This device doesn't have the newest key yet. Sync another device first.")
		}
		code := recoveryCode{host: l.hub.Host, port: l.hub.Port, database: l.hub.Database, secret: make([]byte, secretSize)}
		_, _ = rand.Read(code.secret) // never fails
		d, err := code.derive()
		if err != nil {
			return err
		}
		verifier, err := scramVerifier(d.password)
		if err != nil {
			return err
		}
		ring, err := s.ring(ctx, l)
		if err != nil {
			return err
		}
		public := d.private.PublicKey().Bytes()
		wrapped, err := sealFor(public, uuid.Nil, sealedKeys{ring, ring.proofs()})
		if err != nil {
			return err
		}
		if _, err := c.Exec(ctx, `select app.set_recovery($1, $2, $3, $4, $5, $6, $7)`, d.role, verifier, public, boxMAC(ring[l.keyVersion], uuid.Nil, public), wrapped, l.keyVersion, keyProof(d.signer, l.keyVersion, ring[l.keyVersion])); err != nil {
			return hubError(l.hub.Host, err)
		}
		r.Code = code.String()
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			return audit.Append(tx, audit.Entry{User: l.user, Action: "sync.recovery_exported", SubjectKind: "hub", SubjectID: l.hub.Host})
		})
	})
	return r, err
}

// recover registers this installation as a device by means of a recovery code.
func (s *Service) recover(ctx context.Context, code recoveryCode, name string) (r SetupResult, err error) {
	derived, err := code.derive()
	if err != nil {
		return r, err
	}
	h := hubConfig{Host: code.host, Port: code.port, Database: code.database, Role: derived.role, Name: deviceName(name)}
	c, err := h.connect(ctx, derived.password)
	if err != nil {
		if err = hubError(h.Host, err); fault.Is(err, fault.Denied) {
			err = errCode
		}
		return r, err
	}
	defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the work is already committed
	var d struct {
		registration
		HubID      uuid.UUID `json:"hubId"`
		Wrapped    []byte    `json:"wrapped"`
		KeyVersion int       `json:"keyVersion"`
		// Proven is the key version that was newest when the code was made.
		Proven int    `json:"proven"`
		Proof  []byte `json:"proof"`
	}
	if err := callJSON(ctx, c, `select app.redeem_recovery($1, $2, $3, $4)`, &d, h.Name, s.o.Platform, []byte(s.db.Device().PublicKey), s.o.Version); err != nil {
		return r, hubError(h.Host, err)
	}
	keys, err := openSealed(derived.private, uuid.Nil, d.Wrapped)
	if err != nil {
		return r, errCode
	}
	ring := keyRing{}
	if len(keys.Keys) > 0 {
		if !hmac.Equal(d.Proof, keyProof(derived.signer, d.Proven, keys.Keys[d.Proven])) {
			return r, errCode
		}
		for v, key := range keys.Keys { // older versions only decrypt
			if v <= d.Proven {
				ring[v] = key
			}
		}
		ring.add(keys)
		if ring[d.KeyVersion] == nil {
			return r, fault.Deniedf("The key was changed after this code was made, and the code does not have the new one.")
		}
	}
	h.Role, h.Device, h.Channel, h.Private = d.Role, d.DeviceID, d.Channel, len(ring) > 0
	d.registration.HubID = d.HubID
	r = SetupResult{UserID: d.UserID, DeviceID: d.DeviceID, Site: d.Site, Encrypted: h.Private}
	return r, s.adopt(ctx, h, d.registration, d.Password, ring, d.KeyVersion)
}
