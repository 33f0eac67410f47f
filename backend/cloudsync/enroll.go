package cloudsync

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/storage"
)

// InviteParams describe the device to invite.
type InviteParams struct {
	Name string `json:"name,omitempty"`
}

// InviteResult is an invitation. Anyone who has the link before it expires can join as a device of
// this person.
type InviteResult struct {
	Link      string    `json:"link"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// EnrollParams hold the link of an invitation, or a recovery code.
type EnrollParams struct {
	Code string `json:"code"`
	Name string `json:"name,omitempty"`
}

// invitation is the content of an invitation link: the address of the hub, a role that is valid for
// ten minutes, and the secret that decrypts the user's keys.
type invitation struct {
	Hub      hubConfig `json:"hub"`
	ID       uuid.UUID `json:"id"`
	Password string    `json:"password"`
	Secret   []byte    `json:"secret"`
}

const (
	linkPrefix = "helix-sync:"
	secretSize = 20
)

// wrapping returns the cipher that encrypts the user's keys for a new device.
func wrapping(secret []byte) (Cipher, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "helix sync invitation", userKeySize)
	if err != nil {
		return Cipher{}, err
	}
	return newCipher(key, 1)
}

// wrappedKey is the user's keys as the hub stores them between the inviting and the joining device.
type wrappedKey struct {
	Keys    keyRing `json:"keys"`
	Version int     `json:"version"`
}

// Invite creates a link with which another device can join. The link works once and expires after
// ten minutes.
func (s *Service) Invite(ctx context.Context, p InviteParams) (r InviteResult, err error) {
	err = s.exclusive(ctx, func() error {
		c, l, err := s.open(ctx)
		if err != nil {
			return err
		}
		inv := invitation{Secret: make([]byte, secretSize)}
		_, _ = rand.Read(inv.Secret) // never fails
		w := wrappedKey{Version: l.keyVersion}
		if w.Keys, err = s.ring(ctx, l); err != nil {
			return err
		}
		wrap, err := wrapping(inv.Secret)
		if err != nil {
			return err
		}
		var d registration
		if err := callJSON(ctx, c, `select app.invite_device($1, $2, $3)`, &d, p.Name, "desktop", []byte(wrap.seal("enrolment", "wrapped", uuid.Nil, jsonText(w)))); err != nil {
			return hubError(l.hub.Host, err)
		}
		inv.Hub = *l.hub
		inv.Hub.Role, inv.Hub.Device, inv.Hub.Channel, inv.Hub.Name, inv.Hub.Sent = d.Role, d.DeviceID, d.Channel, p.Name, false
		inv.ID, inv.Password = d.ID, d.Password
		r = InviteResult{Link: linkPrefix + base64.RawURLEncoding.EncodeToString([]byte(jsonText(inv))), ExpiresAt: d.ExpiresAt}
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			return audit.Append(tx, audit.Entry{User: l.user, Action: "sync.invited", SubjectKind: "device", SubjectID: d.DeviceID.String()})
		})
	})
	return r, err
}

var errCode = fault.Deniedf("The code is wrong or has expired. Ask for a new one.")

func readLink(link string) (inv invitation, err error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(link), linkPrefix)
	b, e := base64.RawURLEncoding.DecodeString(text)
	if !ok || e != nil || json.Unmarshal(b, &inv) != nil || inv.Hub.Host == "" || len(inv.Secret) != secretSize {
		return inv, fault.InvalidField("code", fault.CodeInvalid, "This is neither a link from another device nor a recovery code.")
	}
	return inv, nil
}

// Enroll joins the hub of the person who made the link or the recovery code. Existing data of this
// device is assigned to that person and merged with the data on the hub.
func (s *Service) Enroll(ctx context.Context, p EnrollParams) (r SetupResult, err error) {
	err = s.exclusive(ctx, func() error {
		if err := s.notEnrolled(ctx); err != nil {
			return err
		}
		if code, ok := readRecoveryCode(p.Code); ok {
			r, err = s.recover(ctx, code, p.Name)
			return err
		}
		inv, err := readLink(p.Code)
		if err != nil {
			return err
		}
		c, err := inv.Hub.connect(ctx, inv.Password)
		if err != nil {
			if err = hubError(inv.Hub.Host, err); fault.Is(err, fault.Denied) {
				err = errCode
			}
			return err
		}
		defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the work is already committed
		wrap, err := wrapping(inv.Secret)
		if err != nil {
			return err
		}
		var w wrappedKey
		password, err := takeOver(ctx, c, inv.ID, inv.Hub.Role, func(wrapped []byte) error {
			text, err := wrap.open("enrolment", "wrapped", uuid.Nil, string(wrapped))
			if err != nil {
				return errCode
			}
			return json.Unmarshal([]byte(text), &w)
		})
		if err != nil {
			return hubError(inv.Hub.Host, err)
		}
		h := inv.Hub
		h.Name = deviceName(p.Name)
		if _, err := c.Exec(ctx, `select app.describe_device($1, $2, $3, $4)`, h.Name, s.o.Platform, []byte(s.db.Device().PublicKey), s.o.Version); err != nil {
			return hubError(h.Host, err)
		}
		d := registration{DeviceID: h.Device}
		if err := c.QueryRow(ctx, `select app.uid(), app.site(), (select hub_id from app.hub)`).Scan(&d.UserID, &d.Site, &d.HubID); err != nil {
			return hubError(h.Host, err)
		}
		r = SetupResult{UserID: d.UserID, DeviceID: d.DeviceID, Site: d.Site, Encrypted: h.Private, Vectors: h.Vectors}
		return s.adopt(ctx, h, d, password, w.Keys, w.Version)
	})
	return r, err
}

// takeOver redeems an invitation and sets a new password for its role, which it returns. opened, if
// not nil, receives the encrypted keys from the inviting device.
func takeOver(ctx context.Context, c *pgx.Conn, id uuid.UUID, role string, opened func([]byte) error) (password string, err error) {
	var wrapped []byte
	if err := c.QueryRow(ctx, `select app.redeem_invite($1)`, id).Scan(&wrapped); err != nil {
		return "", err
	}
	if wrapped == nil {
		return "", errCode
	}
	if opened != nil {
		if err := opened(wrapped); err != nil {
			return "", err
		}
	}
	return changePassword(ctx, c, role)
}

// changePassword sets a new password for the role of this connection and returns it.
func changePassword(ctx context.Context, c *pgx.Conn, role string) (password string, err error) {
	password = rand.Text()
	verifier, err := scramVerifier(password)
	if err != nil {
		return "", err
	}
	_, err = c.Exec(ctx, fmt.Sprintf(`alter role %s password '%s'`, pgx.Identifier{role}.Sanitize(), verifier))
	return password, err
}

// scramVerifier returns the verifier that PostgreSQL stores for a password (RFC 5803), so that
// neither the server nor its log ever sees the password.
func scramVerifier(password string) (string, error) {
	const rounds = 4096
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return "", err
	}
	mac := func(text string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", rounds, text(salt), text(stored[:]), text(mac("Server Key"))), nil
}

// Disconnect ends the connection to the hub and keeps all rows on this device.
func (s *Service) Disconnect(ctx context.Context, _ struct{}) (struct{}, error) {
	return struct{}{}, s.exclusive(ctx, func() error {
		l, err := s.local(ctx)
		if err != nil {
			return err
		}
		if l.hub == nil {
			return errNotEnrolled
		}
		if err := s.hangUp(); err != nil {
			s.o.Logger.Warn("close the connection to the hub", "err", err)
		}
		if err := s.db.Write(s.asUser(ctx), func(tx *storage.Tx) error {
			for _, name := range SecretNames() {
				if err := s.secrets.DeleteTx(tx, name); err != nil && !fault.Is(err, fault.NotFound) {
					return err
				}
			}
			return errors.Join(leaveHub(tx), writeHub(tx, nil), audit.Append(tx, audit.Entry{User: l.user, Action: "sync.disconnected", SubjectKind: "hub", SubjectID: l.hub.Host}))
		}); err != nil {
			return err
		}
		s.account, s.triedDirect = nil, time.Time{}
		s.setState(Off, nil)
		return nil
	})
}
