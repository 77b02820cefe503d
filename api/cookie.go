package api

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A login of the console is a cookie, and the node stores nothing about it. The cookie holds the token's name, the time at which the login
// ends, and an HMAC of both. The HMAC is keyed with a secret of the store's nodes, and covers the SHA-256 of the token. So every node of
// the store accepts the cookie, and it ends with the token. Neither a token's hash, as files may hold it, nor the store's secret alone is
// enough to make one.
const (
	cookiePrefix = "troupe_login_"
	cookieTime   = 12 * time.Hour
	cookieMax    = 1024 // characters of a value that is read
	cookiesMax   = 16   // cookies of one request that are read
	cookieLabel  = "troupe console login\x00"
)

// LoginKeys returns the secrets with which logins are made: the first one makes new ones, and each is accepted. All nodes of a store
// have the same.
type LoginKeys func(ctx context.Context) [][]byte

// ownKeys is one key that ends with the process.
func ownKeys() LoginKeys {
	key := make([]byte, sha256.Size)
	rand.Read(key) // never fails: the program ends if the system has no random bits
	return func(context.Context) [][]byte { return [][]byte{key} }
}

// cookieName is the cookie's name. Nodes of different stores on one host have different names, because a browser sends cookies to all
// ports of a host.
func cookieName(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("troupe console cookie\x00"))
	return cookiePrefix + hex.EncodeToString(mac.Sum(nil)[:4])
}

// sealLogin makes the value of a cookie.
func sealLogin(key []byte, t *hashedToken, ends time.Time) string {
	return base64.RawURLEncoding.EncodeToString([]byte(t.name)) + "." + strconv.FormatInt(ends.Unix(), 10) + "." +
		base64.RawURLEncoding.EncodeToString(loginMAC(key, t, ends.Unix()))
}

func loginMAC(key []byte, t *hashedToken, ends int64) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(cookieLabel))
	mac.Write(t.digest[:])
	_ = binary.Write(mac, binary.BigEndian, ends)
	mac.Write([]byte(t.name))
	return mac.Sum(nil)
}

// openLogin returns the token of a cookie's value, and when the login ends. Nil: the value is not valid, or its time is over.
func openLogin(keys [][]byte, tokens []hashedToken, value string, now time.Time) (*hashedToken, time.Time) {
	parts := strings.Split(value, ".")
	if len(value) > cookieMax || len(parts) != 3 {
		return nil, time.Time{}
	}
	name, badName := base64.RawURLEncoding.DecodeString(parts[0])
	ends, badTime := strconv.ParseInt(parts[1], 10, 64)
	given, badMAC := base64.RawURLEncoding.DecodeString(parts[2])
	if badName != nil || badTime != nil || badMAC != nil || !now.Before(time.Unix(ends, 0)) {
		return nil, time.Time{}
	}
	for i := range tokens {
		t := &tokens[i]
		if t.name != string(name) || t.certificate != "" {
			continue
		}
		for _, key := range keys {
			if hmac.Equal(given, loginMAC(key, t, ends)) {
				return t, time.Unix(ends, 0).UTC()
			}
		}
	}
	return nil, time.Time{}
}

// loginCookies lists the request's cookies that may be logins, also of nodes of other stores on this host.
func loginCookies(r *http.Request) (list []*http.Cookie) {
	if len(r.Header["Cookie"]) == 0 {
		return nil
	}
	for _, c := range r.Cookies() {
		if strings.HasPrefix(c.Name, cookiePrefix) && len(list) < cookiesMax {
			list = append(list, c)
		}
	}
	return list
}

// setCookie sets or, without a value, removes a login. Scripts cannot read it, and no other site's page can make a browser send it.
func (s *server) setCookie(to *call, name, value string, left time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: s.BasePath + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: to.r.TLS != nil || strings.EqualFold(to.r.Header.Get("X-Forwarded-Proto"), "https"), MaxAge: int(left.Seconds())}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(to.w, c)
}
