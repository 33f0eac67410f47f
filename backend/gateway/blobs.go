package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// BlobSource finds blobs. Open returns NotFound unless a row of the user in ctx refers to the blob;
// contentType is from that row.
type BlobSource interface {
	Open(ctx context.Context, sha256 [32]byte) (content io.ReadSeekCloser, contentType string, err error)
}

// BlobParams identify a blob.
type BlobParams struct {
	SHA256 string `json:"sha256"` // 64 hex characters
}

// BlobURL is a URL that serves the blob without a token until it expires.
type BlobURL struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

const blobURLLife = 5 * time.Minute

// BlobsURL signs a URL for a blob that one of the user's rows refers to. It is valid for 5 minutes,
// and at most until Helix stops.
func (s *Server) BlobsURL(ctx context.Context, p BlobParams) (BlobURL, error) {
	hash, ok := parseSHA(p.SHA256)
	if !ok {
		return BlobURL{}, fault.Invalidf("sha256 must be 64 hex characters.")
	}
	base := s.URL()
	if base == "" {
		return BlobURL{}, fault.Unavailablef("The gateway's port is closed.")
	}
	if s.o.Blobs == nil {
		return BlobURL{}, errNoBlob
	}
	f, _, err := s.o.Blobs.Open(ctx, hash)
	if err != nil {
		return BlobURL{}, err
	}
	f.Close() // only checks that it exists
	exp := time.Now().Add(blobURLLife).Truncate(time.Second)
	return BlobURL{URL: base + "/blobs/" + hex.EncodeToString(hash[:]) + "?exp=" + strconv.FormatInt(exp.Unix(), 10) +
		"&sig=" + s.signBlob(hash, exp.Unix(), identity.UserID(ctx)), ExpiresAt: exp.UTC()}, nil
}

var errNoBlob = fault.NotFoundf("File not found.")

func parseSHA(text string) (h [32]byte, ok bool) {
	b, err := hex.DecodeString(strings.ToLower(text))
	if err != nil || len(b) != 32 {
		return h, false
	}
	return [32]byte(b), true
}

// signBlob returns the user's id followed by an HMAC over it, the hash and the expiry time.
func (s *Server) signBlob(hash [32]byte, exp int64, user uuid.UUID) string {
	mac := hmac.New(sha256.New, s.blobKey[:])
	mac.Write(hash[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(exp)))
	mac.Write(user[:])
	return base64.RawURLEncoding.EncodeToString(mac.Sum(user[:]))
}

// serveBlob serves a signed URL; it supports range requests.
func (s *Server) serveBlob(w http.ResponseWriter, r *http.Request, _ *credential) error {
	hash, ok := parseSHA(strings.TrimPrefix(r.URL.Path, "/blobs/"))
	q := r.URL.Query()
	exp, err := strconv.ParseInt(q.Get("exp"), 10, 64)
	sig := q.Get("sig")
	raw, err2 := base64.RawURLEncoding.DecodeString(sig)
	if !ok || err != nil || err2 != nil || len(raw) != 16+sha256.Size || s.o.Blobs == nil {
		return unauthenticated()
	}
	user := uuid.UUID(raw[:16])
	if subtle.ConstantTimeCompare([]byte(sig), []byte(s.signBlob(hash, exp, user))) != 1 || time.Now().Unix() >= exp {
		return unauthenticated()
	}
	ctx := identity.With(r.Context(), identity.Identity{User: user, Scopes: Read, Client: identity.ClientProgram, Pipe: "http"})
	f, contentType, err := s.o.Blobs.Open(ctx, hash)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	head := w.Header()
	head.Set("Content-Type", contentType)
	head.Set("Content-Security-Policy", "default-src 'none'; sandbox") // an HTML or SVG blob stays inert
	head.Set("ETag", `"`+hex.EncodeToString(hash[:])+`"`)
	http.ServeContent(w, r, "", time.Time{}, f)
	return errAnswered
}
