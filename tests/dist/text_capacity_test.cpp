// The bytes that a gather of texts reserves.
#include "penstock/dist/text_capacity.h"

#include <gtest/gtest.h>

namespace penstock::dist {
namespace {

TEST(TextCapacity, HasRoomForAQuarterMoreThanTheLastTexts) {
  TextCapacity capacity;
  EXPECT_EQ(capacity.bytes(), 256);
  capacity.add(1000);
  EXPECT_EQ(capacity.bytes(), 1250);
  capacity.add(10);  // a short text between long ones
  EXPECT_EQ(capacity.bytes(), 1250);
  capacity.add(1200);
  EXPECT_EQ(capacity.bytes(), 1500);
}

TEST(TextCapacity, ForgetsALongTextAfterFourOthers) {
  TextCapacity capacity;
  capacity.add(1000000);
  for (int i = 0; i < 3; ++i) capacity.add(800);
  EXPECT_EQ(capacity.bytes(), 1250000);
  capacity.add(800);
  EXPECT_EQ(capacity.bytes(), 1000);
  for (int i = 0; i < 4; ++i) capacity.add(0);
  EXPECT_EQ(capacity.bytes(), 256);
}

}  // namespace
}  // namespace penstock::dist
