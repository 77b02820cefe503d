// Keeps what is opened for a while within the window.

/** Room that is left beside it, in pixels. */
const room = 14

/** How far a box is moved to the right, so that it lies within a window: not beyond its left edge, and where it is not too wide, not beyond its right one. */
export const shiftOf = (left: number, right: number, width: number): number => Math.max(Math.min(0, width - room - right), room - left)

/** Moves a menu into the window. It ends where its button does, and the button stands at either side, as the line has room. */
export function within(menu: HTMLElement): () => void {
  const place = () => {
    menu.style.translate = ''
    const { left, right } = menu.getBoundingClientRect()
    const by = shiftOf(left, right, document.documentElement.clientWidth)
    if (by) menu.style.translate = `${by}px`
  }
  place()
  addEventListener('resize', place)
  return () => removeEventListener('resize', place)
}
