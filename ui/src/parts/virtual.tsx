// Long lists: only what is near the screen is in the page. Heights are known beforehand.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Window {
  first: number;
  last: number;
  before: number;
  after: number;
}

/** The part of rows with these heights that is within `slack` pixels of the view. */
export function windowOf(heights: number[], top: number, view: number, slack = 400): Window {
  let y = 0;
  let first = -1;
  let last = -1;
  let before = 0;
  let after = 0;
  heights.forEach((height, i) => {
    const seen = y + height >= top - slack && y <= top + view + slack;
    if (seen) {
      if (first < 0) first = i;
      last = i;
    } else if (first < 0) before += height;
    else after += height;
    y += height;
  });
  return first < 0 ? { first: 0, last: -1, before, after } : { first, last, before, after };
}

/** Follows the scroll position of a box, at most once per frame. */
export function useWindow(box: RefObject<HTMLElement | null>, heights: number[]): Window {
  const [at, setAt] = useState({ top: 0, view: 900 });
  useEffect(() => {
    const element = box.current!;
    let frame = 0;
    const read = () => {
      frame = 0;
      setAt({ top: element.scrollTop, view: element.clientHeight });
    };
    const later = () => {
      frame ||= requestAnimationFrame(read);
    };
    read();
    element.addEventListener("scroll", later, { passive: true });
    const sizes = new ResizeObserver(later);
    sizes.observe(element);
    return () => {
      cancelAnimationFrame(frame);
      element.removeEventListener("scroll", later);
      sizes.disconnect();
    };
  }, []);
  return windowOf(heights, at.top, at.view);
}

/** A block that is drawn when it comes near the screen and keeps its place when it leaves; `stay`: it is never taken out again. */
export function Lazy({
  height,
  root,
  stay = false,
  children,
}: {
  height: number;
  root: RefObject<HTMLElement | null>;
  stay?: boolean;
  children: () => ComponentChildren;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [near, setNear] = useState(false);
  const measured = useRef(height);
  useEffect(() => {
    const watcher = new IntersectionObserver(([entry]) => setNear((before) => entry!.isIntersecting || (stay && before)), {
      root: root.current,
      rootMargin: "800px 0px",
    });
    watcher.observe(box.current!);
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (near) measured.current = box.current!.offsetHeight;
  });
  return (
    <div ref={box} style={near ? {} : { height: `${measured.current}px` }}>
      {near ? children() : null}
    </div>
  );
}
