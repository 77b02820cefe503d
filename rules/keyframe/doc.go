// Package keyframe says what the nodes, pools and workers of a cluster were at a moment of the past. It owns the keyframe, which is what a
// node stores of its own pools every few minutes, and puts the keyframes and the recorded changes together.
//
// It decides by values alone. The node makes and stores the keyframes, and an operator's question reads them.
package keyframe
