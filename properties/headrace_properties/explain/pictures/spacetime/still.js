// What diagram.js needs of a browser, for a still picture: the data, the width, and how wide a text is at the most.
"use strict";

// Ems of letters in the widest font that a viewer may take (DejaVu Sans).
const EMS = [["ijl|'.,:;! ftrI()[]/\\-\"`", 0.46], ["mwMW@%", 1.0], ["ABCDEFGHJKLNOPQRSTUVXYZ=+<>#~^&$", 0.84]];
const WIDTHS = Object.fromEntries(EMS.flatMap(([letters, width]) => [...letters].map((letter) => [letter, width])));
const em = (letter) => (WIDTHS[letter] ?? 0.66) + (letter > "\u02ff" ? 0.34 : 0);

const document = {
  getElementById: (id) => (id === "data" ? { textContent: dukpy.data } : { clientWidth: 960 }),
  createElement: () => ({ getContext: () => ({
    font: "",
    measureText(text) {
      const [, bold, size] = /^(700 )?(\d+)px/.exec(this.font);
      return { width: [...text].reduce((ems, letter) => ems + em(letter), 0) * Number(size) * (bold ? 1.12 : 1) };
    },
  }) }),
};
const matchMedia = () => ({ matches: false });
