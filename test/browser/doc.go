// Package browser uses the console in a real browser, Chromium, against the built troupe binary with real nodes. What the
// browser complains of fails a test: an error in its console, an exception, a breach of the page's policy.
//
// -screenshots FOLDER writes a picture of each page that a test looks at: wide and narrow, light, dark and with high contrast.
// TROUPE_E2E_BINARY names another binary than that of this checkout.
//
// Its tests take long: they build the program, start a browser and a node, and wait for what a page shows.
package browser
